# One H100 on which ECC was switched off; it stays on until the next reset.
[system]
like = h100x8
count = 1

[0]
ecc.mode = 1, 0

[host]
nodes = nvidia0
