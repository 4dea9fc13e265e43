# One H100 that is too hot and slowed down by its own hardware.
[system]
like = h100x8
count = 1
process.20417 = python3

[0]
temperature.0 = 90
temperature.margin = -3
field.82 = 98
power = 412000
busy = 100, 64
clock.0 = 795
clock.1 = 795
clocks.reasons = 0x68
held.1 = 912000000000
field.269 = 301000000000
field.270 = 912000000000
processes.compute = 20417 64424509440
memory = 85520809984, 589299712, 64960331776

[host]
nodes = nvidia0
