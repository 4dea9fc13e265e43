# One Tesla T4 passed through to a virtual machine: page retirement applies, row remapping does not.
[system]
driver = 595.91.07
nvml = 13.595.91.07
cuda = 13020
count = 1

[all]
name = Tesla T4
architecture = 6
capability = 7, 5
vbios = 90.04.A7.00.01
persistence = 0
compute_mode = 0
virtualisation = 1
pci.device = 0x1eb810de
pci.subsystem = 0x51661462
memory = 16106127360, 471859200, 3145728
bar1 = 268435456, 2097152
temperature.0 = 34
power = 11870
pstate = 8
busy = 0, 1
clock.0 = 210
clock.1 = 210
clock.2 = 405
clock.maximum.0 = 1590
clock.maximum.1 = 1590
clock.maximum.2 = 5001
clocks.reasons = 0x1
pcie.generation = 1
pcie.width = 16
pcie.generation.maximum = 3
pcie.width.maximum = 16
pcie.generation.device = 3
pcie.replays = 0
inforom.image = G183.0200.00.02
inforom.valid = 0
processes.compute =
processes.graphics =
processes.mps =
display.mode = 1
display.active = 1
ecc.mode = 1, 1
ecc.volatile.corrected = 0
ecc.volatile.uncorrected = 0
ecc.aggregate.corrected = 0
ecc.aggregate.uncorrected = 0
retired.0 = 0
retired.1 = 0
retired.pending = 0
held.0 = 0
held.1 = 0
power.enforced = 70000

[0]
uuid = GPU-00000000-0000-0000-0000-000000000000
serial = 1650023000000
minor = 0
pci.address = 00000000:01:00.0
