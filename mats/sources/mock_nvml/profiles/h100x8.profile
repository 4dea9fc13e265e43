# Eight healthy H100 of one board, at rest: 18 NVLinks each to the NVSwitches, fabric registered.
[system]
driver = 575.57.08
nvml = 12.575.57.08
cuda = 12090
count = 8

[all]
name = NVIDIA H100 80GB HBM3
architecture = 9
capability = 9, 0
vbios = 96.00.89.00.01
persistence = 1
compute_mode = 0
mig.mode = 0, 0
addressing = 1
virtualisation = 0
gsp.mode = 1, 1
gsp.version = 575.57.08
pci.device = 0x233010de
pci.subsystem = 0x16c110de
numa = 0
cpus = 0, 47
memory = 85520809984, 589299712, 1048576
memory.bus = 5120
bar1 = 137438953472, 1048576
temperature.0 = 31
temperature.margin = 56
# memory temperature; degrees left at shutdown, slowdown, the memory's and the core's maximum
field.82 = 39
field.193 = -8
field.194 = -2
field.195 = 0
field.196 = 0
power = 71234
field.185 = 70950
field.186 = 71234
power.enforced = 700000
power.default = 700000
power.limit = 700000
power.constraints = 200000, 700000
pstate = 0
busy = 0, 0
clock.0 = 1980
clock.1 = 1980
clock.2 = 2619
clock.maximum.0 = 1980
clock.maximum.1 = 1980
clock.maximum.2 = 2619
clocks.reasons = 0x1
held.0 = 0
held.1 = 0
# nanoseconds held down by the software power cap, sync boost, software and hardware thermal slowdown, power brake
field.74 = 0
field.76 = 0
field.269-271 = 0
ecc.mode = 1, 1
ecc.volatile.corrected = 0
ecc.volatile.uncorrected = 0
ecc.aggregate.corrected = 0
ecc.aggregate.uncorrected = 0
ecc.volatile.corrected.2 = 0
ecc.volatile.uncorrected.2 = 0
ecc.aggregate.corrected.2 = 0
ecc.aggregate.uncorrected.2 = 0
ecc.sram = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
remap = 0, 0, 0, 0
remap.banks = 2560, 0, 0, 0, 0
repair = 0, 0
pcie.generation = 5
pcie.width = 16
pcie.generation.maximum = 5
pcie.width.maximum = 16
pcie.generation.device = 5
pcie.replays = 0
field.95 = 0
field.169 = 0
field.173-183 = 0
inforom.image = G520.0200.00.05
inforom.0 = 2.1
inforom.1 = 7.16
inforom.valid = 0
processes.compute =
processes.graphics =
processes.mps =
fabric = 3, 0, 0, 0x51aa, 1
# reset required, drain and reset recommended, recovery action
field.226 = 0
field.227 = 0
field.230 = 0
field.91 = 18
nvlink.state.0-17 = 1
nvlink.version.0-17 = 6
nvlink.remote.0-17 = 2
nvlink.pci.0-4 = 00000000:07:00.0
nvlink.pci.5-9 = 00000000:08:00.0
nvlink.pci.10-13 = 00000000:09:00.0
nvlink.pci.14-17 = 00000000:0a:00.0
nvlink.errors.0.0-17 = 0
nvlink.errors.1.0-17 = 0
nvlink.errors.2.0-17 = 0
field.164.0-17 = 26562
# replays, recoveries and checksum errors of each link, as above
field.161.0-17 = 0
field.162.0-17 = 0
field.163.0-17 = 0
topology = 50

[0]
uuid = GPU-00000000-0000-0000-0000-000000000000
serial = 1650023000000
minor = 0
pci.address = 00000000:1b:00.0

[1]
uuid = GPU-00000001-0000-0000-0000-000000000001
serial = 1650023000001
minor = 1
pci.address = 00000000:2a:00.0

[2]
uuid = GPU-00000002-0000-0000-0000-000000000002
serial = 1650023000002
minor = 2
pci.address = 00000000:39:00.0

[3]
uuid = GPU-00000003-0000-0000-0000-000000000003
serial = 1650023000003
minor = 3
pci.address = 00000000:48:00.0

[4]
uuid = GPU-00000004-0000-0000-0000-000000000004
serial = 1650023000004
minor = 4
pci.address = 00000000:57:00.0
numa = 1
cpus = 48, 95

[5]
uuid = GPU-00000005-0000-0000-0000-000000000005
serial = 1650023000005
minor = 5
pci.address = 00000000:66:00.0
numa = 1
cpus = 48, 95

[6]
uuid = GPU-00000006-0000-0000-0000-000000000006
serial = 1650023000006
minor = 6
pci.address = 00000000:75:00.0
numa = 1
cpus = 48, 95

[7]
uuid = GPU-00000007-0000-0000-0000-000000000007
serial = 1650023000007
minor = 7
pci.address = 00000000:84:00.0
numa = 1
cpus = 48, 95

[host]
system = Ubuntu 24.04.2 LTS
kernel = 6.8.0-60-generic
wsl = no
container = none
modules = nvidia, nvidia_modeset, nvidia_uvm
module = 575.57.08
fabric_manager = active
fabric_manager_version = 575.57.08
persistence_daemon = active
nodes = nvidia0, nvidia1, nvidia2, nvidia3, nvidia4, nvidia5, nvidia6, nvidia7

[log]
| [    0.000000] Linux version 6.8.0-60-generic (buildd@lcy02-amd64-054) (x86_64-linux-gnu-gcc-13 13.3.0) #63-Ubuntu SMP PREEMPT_DYNAMIC
| [    5.102334] nvidia: loading out-of-tree module taints kernel.
| [    5.884120] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build
