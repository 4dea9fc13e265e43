# Two H100 whose power is cut by a signal from the board, as with a power supply that fails.
[system]
like = h100x8
count = 2
process.20417 = python3

[all]
busy = 100, 64
clock.0 = 990
clock.1 = 990
clocks.reasons = 0x88
field.271 = 55000000000
processes.compute = 20417 64424509440
memory = 85520809984, 589299712, 64960331776

[host]
nodes = nvidia0, nvidia1
