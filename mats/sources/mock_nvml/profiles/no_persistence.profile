# One H100 without persistence mode: the driver lets go of it between two jobs.
[system]
like = h100x8
count = 1

[0]
persistence = 0

[host]
nodes = nvidia0
persistence_daemon = inactive
