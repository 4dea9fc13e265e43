# One H100 whose ECC counters take over a second, as with an enormous rate of corrected errors.
[system]
like = h100x8
count = 1

[all]
ecc.volatile.corrected = @1.1 54700000000
ecc.volatile.corrected.2 = 54700000000

[host]
nodes = nvidia0
