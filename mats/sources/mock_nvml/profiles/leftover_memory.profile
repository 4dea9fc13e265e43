# One H100 with 62 GiB in use and no process that holds them: one has died and left them, or hides.
[system]
like = h100x8
count = 1

[0]
memory = 85520809984, 589299712, 66571993088

[host]
nodes = nvidia0
