# One B200 of a board: NVLink 5 with its own counters, repair of channels, no unrepairable memory.
[system]
driver = 580.65.06
nvml = 13.580.65.06
cuda = 13000
count = 1

[all]
name = NVIDIA B200
architecture = 10
capability = 10, 0
vbios = 97.00.82.00.15
persistence = 1
compute_mode = 0
mig.mode = 0, 0
addressing = 1
virtualisation = 0
gsp.mode = 1, 1
gsp.version = 580.65.06
pci.device = 0x290110de
pci.subsystem = 0x16c110de
numa = 0
cpus = 0, 47
memory = 192265846784, 1118830592, 1048576
memory.bus = 8192
bar1 = 274877906944, 1048576
temperature.0 = 31
temperature.margin = 58
# memory temperature; degrees left at shutdown, slowdown, the memory's and the core's maximum
field.82 = 39
field.193 = -8
field.194 = -2
field.195 = 0
field.196 = 0
power = 71234
field.185 = 70950
field.186 = 71234
power.enforced = 1000000
power.default = 1000000
power.limit = 1000000
power.constraints = 200000, 1000000
pstate = 0
busy = 0, 0
clock.0 = 1965
clock.1 = 1965
clock.2 = 3996
clock.maximum.0 = 1965
clock.maximum.1 = 1965
clock.maximum.2 = 3996
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
remap.banks = 3840, 0, 0, 0, 0
repair = 0, 0
unrepairable = 0
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
nvlink.version.0-17 = 7
nvlink.remote.0-17 = 2
nvlink.pci.0-4 = 00000000:07:00.0
nvlink.pci.5-9 = 00000000:08:00.0
nvlink.pci.10-13 = 00000000:09:00.0
nvlink.pci.14-17 = 00000000:0a:00.0
# packets sent and received
field.201.0-17 = 2000000
field.203.0-17 = 1000000
# malformed, overruns, receive errors (three kinds), integrity, discards, recoveries (good, failed, all)
field.206.0-17 = 0
field.207.0-17 = 0
field.208.0-17 = 0
field.209.0-17 = 0
field.210.0-17 = 0
field.211.0-17 = 0
field.212.0-17 = 0
field.213.0-17 = 0
field.214.0-17 = 0
field.215.0-17 = 0
# errors that are left and their share, symbol errors and their share; 15 x 10^-255 stands for none
field.219.0-17 = 0
field.220.0-17 = 4095
field.221.0-17 = 0
field.222.0-17 = 4095
field.164.0-17 = 53125
topology = 50

[0]
uuid = GPU-00000000-0000-0000-0000-000000000000
serial = 1650023000000
minor = 0
pci.address = 00000000:1b:00.0

[host]
system = Ubuntu 24.04.2 LTS
kernel = 6.8.0-60-generic
wsl = no
container = none
modules = nvidia, nvidia_modeset, nvidia_uvm
module = 580.65.06
fabric_manager = active
fabric_manager_version = 580.65.06
persistence_daemon = active
nodes = nvidia0
