# Two H100; the first gives no handle, so that listing stops there for clients that do not expect it.
[system]
like = h100x8
count = 2

[0]
handle = !15

[host]
nodes = nvidia0, nvidia1
