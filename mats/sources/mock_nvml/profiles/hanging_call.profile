# One H100 whose temperature call does not return for an hour, as with firmware that hangs.
[system]
like = h100x8
count = 1

[all]
temperature.0 = @3600 31

[host]
nodes = nvidia0
