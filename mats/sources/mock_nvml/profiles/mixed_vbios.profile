# Two H100 of a board with different versions of the VBIOS.
[system]
like = h100x8
count = 2

[1]
vbios = 96.00.74.00.0D

[host]
nodes = nvidia0, nvidia1
