# One RTX 4060 Laptop: no ECC, no power limit told, 8 lanes by design.
[system]
driver = 550.144.03
nvml = 12.550.144.03
cuda = 12040
count = 1

[all]
name = NVIDIA GeForce RTX 4060 Laptop GPU
architecture = 8
capability = 8, 9
vbios = 95.07.13.00.5d
persistence = 0
compute_mode = 0
virtualisation = 0
pci.device = 0x28e010de
pci.subsystem = 0x51661462
memory = 8585740288, 346030080, 12582912
bar1 = 8589934592, 2097152
temperature.0 = 43
power = 1830
pstate = 8
busy = 0, 1
clock.0 = 210
clock.1 = 210
clock.2 = 405
clock.maximum.0 = 3105
clock.maximum.1 = 3105
clock.maximum.2 = 8001
clocks.reasons = 0x1
pcie.generation = 1
pcie.width = 8
pcie.generation.maximum = 4
pcie.width.maximum = 8
pcie.generation.device = 4
pcie.replays = 0
inforom.image = G001.0000.94.01
inforom.valid = 0
processes.compute =
processes.graphics = 1893 219152384
processes.mps =
display.mode = 1
display.active = 1
numa = 0
cpus = 0, 19
memory.bus = 128
temperature.margin = 44
temperature.threshold.5 = 87
field.193 = -7
field.194 = -2
field.196 = 0
field.74 = 0
field.76 = 0
field.95 = 0
field.230 = !2

[0]
uuid = GPU-00000000-0000-0000-0000-000000000000
serial = 1650023000000
minor = 0
pci.address = 00000000:01:00.0

[host]
system = Ubuntu 24.04.2 LTS
kernel = 6.8.0-60-generic
wsl = no
container = none
modules = nvidia, nvidia_modeset, nvidia_uvm, nvidia_drm
module = 550.144.03
fabric_manager = not installed
persistence_daemon = not installed
nodes = nvidia0
