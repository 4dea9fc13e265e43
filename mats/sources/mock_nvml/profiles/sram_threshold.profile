# One H100 with so many uncorrectable errors in SRAM that NVIDIA's own bound for replacing it is reached.
[system]
like = h100x8
count = 1

[0]
ecc.aggregate.uncorrected = 7
ecc.sram = 2, 5, 0, 0, 0, 0, 5, 2, 0, 0, 0, 1

[host]
nodes = nvidia0
