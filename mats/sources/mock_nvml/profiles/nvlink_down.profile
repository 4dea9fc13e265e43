# Two H100; one of 18 NVLinks of the first is down.
[system]
like = h100x8
count = 2

[0]
nvlink.state.7 = 0

[host]
nodes = nvidia0, nvidia1
