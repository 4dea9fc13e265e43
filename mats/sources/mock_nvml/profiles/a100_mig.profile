# One A100 with MIG on and two instances: row remapping and volatile ECC are refused, use is not told, links read down.
[system]
driver = 575.57.08
nvml = 12.575.57.08
cuda = 12090
count = 1

[all]
name = NVIDIA A100-SXM4-40GB
architecture = 7
capability = 8, 0
vbios = 92.00.45.00.03
persistence = 1
compute_mode = 0
mig.mode = 1, 1
mig.maximum = 7
addressing = 1
virtualisation = 0
gsp.mode = 1, 1
gsp.version = 575.57.08
pci.device = 0x20b010de
pci.subsystem = 0x134f10de
numa = 3
cpus = 48, 63
memory = 42949672960, 617611264, 39845888
memory.bus = 5120
bar1 = 68719476736, 1048576
temperature.0 = 31
temperature.threshold.0 = 92
temperature.threshold.1 = 89
temperature.threshold.2 = 95
temperature.threshold.3 = 85
field.82 = 39
power = 71234
field.185 = 71011
field.186 = 71234
power.enforced = 400000
power.default = 400000
power.limit = 400000
power.constraints = 100000, 400000
pstate = 0
clock.0 = 1410
clock.1 = 1410
clock.2 = 1215
clock.maximum.0 = 1410
clock.maximum.1 = 1410
clock.maximum.2 = 1215
clocks.reasons = 0x1
held.0 = 0
held.1 = 0
field.74 = 0
field.76 = 0
field.269-271 = 0
ecc.mode = 1, 1
ecc.aggregate.corrected = 0
ecc.aggregate.uncorrected = 0
ecc.aggregate.corrected.2 = 0
ecc.aggregate.uncorrected.2 = 0
ecc.sram = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
pcie.generation = 4
pcie.width = 16
pcie.generation.maximum = 4
pcie.width.maximum = 16
pcie.generation.device = 4
pcie.replays = 0
field.95 = 0
inforom.image = G506.0200.00.04
inforom.0 = 2.0
inforom.1 = 6.16
inforom.valid = 0
processes.compute =
processes.graphics =
processes.mps =
field.226 = 0
field.227 = 0
field.230 = 0
field.91 = 12
nvlink.state.0-11 = 0

[0]
uuid = GPU-00000000-0000-0000-0000-000000000000
serial = 1650023000000
minor = 0
pci.address = 00000000:1b:00.0

[0.0]
uuid = MIG-00000000-0000-0000-0000-0000000000a1
name = NVIDIA A100-SXM4-40GB MIG 3g.20gb
gpu_instance = 1
compute_instance = 0
memory = 20937965568, 0, 19922944
bar1 = 34358689792, 0
attributes = 42, 19968
ecc.volatile.uncorrected.7 = 0

[0.1]
uuid = MIG-00000000-0000-0000-0000-0000000000a2
name = NVIDIA A100-SXM4-40GB MIG 3g.20gb
gpu_instance = 2
compute_instance = 0
memory = 20937965568, 0, 19922944
bar1 = 34358689792, 0
attributes = 42, 19968
ecc.volatile.uncorrected.7 = 0

[host]
system = Ubuntu 24.04.2 LTS
kernel = 6.8.0-60-generic
wsl = no
container = none
modules = nvidia, nvidia_modeset, nvidia_uvm
module = 575.57.08
fabric_manager = not installed
fabric_manager_version = 575.57.08
persistence_daemon = active
nodes = nvidia0
