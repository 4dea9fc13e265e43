# Two H100 of a board; the registration of the second with the NVSwitch fabric has failed.
[system]
like = h100x8
count = 2

[1]
fabric = 3, 999, 0, 0x519a, 2

[host]
nodes = nvidia0, nvidia1
