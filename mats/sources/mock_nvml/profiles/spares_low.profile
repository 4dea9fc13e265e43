# One H100 that has replaced 24 rows: one bank has no spare row left, three have few; nothing has failed.
[system]
like = h100x8
count = 1

[0]
ecc.aggregate.uncorrected = 24
ecc.aggregate.uncorrected.2 = 24
remap = 0, 24, 0, 0
remap.banks = 2549, 4, 3, 3, 1

[host]
nodes = nvidia0
