# Two H100; one NVLink of the second has replays, recoveries and checksum errors.
[system]
like = h100x8
count = 2

[1]
nvlink.errors.0.9 = 44
nvlink.errors.1.9 = 2
nvlink.errors.2.9 = 12873
field.161.9 = 44
field.162.9 = 2
field.163.9 = 12873

[host]
nodes = nvidia0, nvidia1
