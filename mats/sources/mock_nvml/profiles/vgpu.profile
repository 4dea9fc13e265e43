# A slice of an A40 as a virtual GPU within a virtual machine: no ECC, no PCIe, no power, no temperature.
[system]
driver = 550.90.07
nvml = 12.550.90.07
cuda = 12040
count = 1

[all]
name = NVIDIA A40-24Q
architecture = 7
capability = 8, 6
persistence = 1
compute_mode = 0
virtualisation = 2
addressing = 0
mig.mode = !3
ecc.mode = !22
pci.device = 0x223510de
memory = 25769803776, 1503657984, 0
bar1 = 268435456, 0
pstate = 0
busy = 0, 0
clock.0 = 1740
clock.1 = 1740
clock.2 = 7250
clock.maximum.0 = 1740
clock.maximum.1 = 1740
clock.maximum.2 = 7251
clocks.reasons = 0x0
pcie.generation = 0
pcie.width = 0
processes.compute =
processes.graphics =
processes.mps =

[0]
uuid = GPU-00000000-0000-0000-0000-0000000000d1
minor = 0
pci.address = 00000000:02:00.0
