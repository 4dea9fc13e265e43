# One GB10: memory is the machine's own, so that NVML tells none; no power limit, no PCIe, no ECC.
[system]
driver = 580.105.08
nvml = 13.580.105.08
cuda = 13000
count = 1

[all]
name = NVIDIA GB10
architecture = 10
capability = 12, 1
persistence = 1
compute_mode = 0
addressing = 2
virtualisation = 0
pci.device = 0x2e1210de
temperature.0 = 43
power = 11040
pstate = 0
busy = 6, 0
clock.0 = 2405
clock.1 = 2405
clock.maximum.0 = 3003
clock.maximum.1 = 3003
clocks.reasons = 0x0
processes.compute = 4711 1073741824
processes.graphics =
processes.mps =
memory.bus = !3
temperature.margin = 52
field.186 = 11040
numa = 0
cpus = 0, 19
gsp.mode = 1, 1
gsp.version = 580.105.08
field.226 = 0
field.227 = 0
field.230 = 0

[0]
uuid = GPU-00000000-0000-0000-0000-0000000000b1
minor = 0
pci.address = 0000000f:01:00.0

[host]
system = NVIDIA DGX Spark
kernel = 6.11.0-1016-nvidia
wsl = no
container = none
modules = nvidia, nvidia_modeset, nvidia_uvm
module = 580.105.08
nodes = nvidia0
memory = 128528265216
