# Two H100 of a board whose registration with the fabric does not end: the fabric manager is not running.
[system]
like = h100x8
count = 2

[all]
fabric = 2, 0, 0, 0, 0

[host]
nodes = nvidia0, nvidia1
fabric_manager = failed
