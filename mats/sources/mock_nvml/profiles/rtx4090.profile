# One RTX 4090 at rest in a Gen3 board: ECC off, a desktop on it, resizable BAR off, link at Gen1.
[system]
driver = 535.86.05
nvml = 12.535.86.05
cuda = 12020
count = 1

[all]
name = NVIDIA GeForce RTX 4090
architecture = 8
capability = 8, 9
vbios = 95.02.3c.00.8c
persistence = 0
compute_mode = 0
virtualisation = 0
pci.device = 0x268410de
pci.subsystem = 0x51661462
memory = 25757220864, 363069440, 219152384
bar1 = 268435456, 5242880
temperature.0 = 40
power = 20910
pstate = 8
busy = 0, 1
fan = 0
clock.0 = 210
clock.1 = 210
clock.2 = 405
clock.maximum.0 = 3105
clock.maximum.1 = 3105
clock.maximum.2 = 10501
clocks.reasons = 0x1
pcie.generation = 1
pcie.width = 16
pcie.generation.maximum = 3
pcie.width.maximum = 16
pcie.generation.device = 4
pcie.replays = 0
inforom.image = G002.0000.00.03
inforom.valid = 0
processes.compute =
processes.graphics = 1893 219152384
processes.mps =
display.mode = 1
display.active = 1
ecc.mode = 0, 0
remap = 0, 0, 0, 0
remap.banks = 192, 0, 0, 0, 0
power.enforced = 450000
power.default = 450000
power.limit = 450000
power.constraints = 10000, 600000
gsp.mode = 1, 0
gsp.version = 535.86.05
numa = 0
cpus = 0, 31
memory.bus = 384
temperature.margin = 43
temperature.threshold.5 = 84
field.193 = -7
field.194 = -2
field.196 = 0
field.185 = 20710
field.186 = 20910
field.74 = 0
field.76 = 0
field.95 = 0
field.230 = !2
field.226 = 0
field.227 = 0

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
module = 535.86.05
fabric_manager = not installed
persistence_daemon = not installed
nodes = nvidia0
