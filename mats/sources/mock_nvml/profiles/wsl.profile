# One RTX 4080 within WSL 2: memory works; processes have no memory, no minor number, no PCIe, no persistence.
[system]
driver = 576.80
nvml = 12.575.64.01
cuda = 12090
count = 1

[all]
name = NVIDIA GeForce RTX 4080
architecture = 8
capability = 8, 9
vbios = 95.03.1E.00.60
driver_model = 0, 0
virtualisation = 0
pci.device = 0x270410de
memory = 17171480576, 404750336, 9165602816
temperature.0 = 47
power = 31250
pstate = 5
busy = 12, 8
clock.0 = 1125
clock.1 = 1125
clock.2 = 810
clock.maximum.0 = 3105
clock.maximum.1 = 3105
clock.maximum.2 = 11201
clocks.reasons = 0x0
processes.compute = 412 -
processes.graphics =
processes.mps =
memory.bus = !3
temperature.threshold.0 = 95
temperature.threshold.1 = 90
gsp.mode = 0, 0

[0]
uuid = GPU-00000000-0000-0000-0000-0000000000c2
pci.address = 00000000:01:00.0

[host]
system = Ubuntu 22.04.5 LTS
kernel = 6.6.87.2-microsoft-standard-WSL2
wsl = yes
container = none
modules =
nodes =
