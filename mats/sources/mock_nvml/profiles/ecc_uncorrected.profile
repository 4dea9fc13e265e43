# One H100 with an uncorrectable error in its memory since the driver was loaded; a contained one, now remapped.
[system]
like = h100x8
count = 1

[0]
ecc.volatile.uncorrected = 1
ecc.aggregate.uncorrected = 1
ecc.volatile.uncorrected.2 = 1
ecc.aggregate.uncorrected.2 = 1
remap = 0, 1, 0, 0
remap.banks = 2559, 1, 0, 0, 0

[host]
nodes = nvidia0
