# Eight healthy H100 of one board, at rest; 18 NVLinks each, fabric registered.
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
memory = 85520809984, 589299712, 1048576
bar1 = 137438953472, 1048576
temperature.0 = 31
temperature.margin = 56
power = 71234
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
ecc.mode = 1, 1
ecc.volatile.corrected = 0
ecc.volatile.uncorrected = 0
ecc.aggregate.corrected = 0
ecc.aggregate.uncorrected = 0
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
inforom.image = G520.0200.00.05
inforom.valid = 0
processes.compute =
processes.graphics =
processes.mps =
fabric = 3, 0, 0, 0x5aaa, 1
field.82 = 39
field.230 = 0
nvlink.state.0 = 1
nvlink.version.0 = 4
nvlink.state.1 = 1
nvlink.version.1 = 4
nvlink.state.2 = 1
nvlink.version.2 = 4
nvlink.state.3 = 1
nvlink.version.3 = 4
nvlink.state.4 = 1
nvlink.version.4 = 4
nvlink.state.5 = 1
nvlink.version.5 = 4
nvlink.state.6 = 1
nvlink.version.6 = 4
nvlink.state.7 = 1
nvlink.version.7 = 4
nvlink.state.8 = 1
nvlink.version.8 = 4
nvlink.state.9 = 1
nvlink.version.9 = 4
nvlink.state.10 = 1
nvlink.version.10 = 4
nvlink.state.11 = 1
nvlink.version.11 = 4
nvlink.state.12 = 1
nvlink.version.12 = 4
nvlink.state.13 = 1
nvlink.version.13 = 4
nvlink.state.14 = 1
nvlink.version.14 = 4
nvlink.state.15 = 1
nvlink.version.15 = 4
nvlink.state.16 = 1
nvlink.version.16 = 4
nvlink.state.17 = 1
nvlink.version.17 = 4

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

[5]
uuid = GPU-00000005-0000-0000-0000-000000000005
serial = 1650023000005
minor = 5
pci.address = 00000000:66:00.0

[6]
uuid = GPU-00000006-0000-0000-0000-000000000006
serial = 1650023000006
minor = 6
pci.address = 00000000:75:00.0

[7]
uuid = GPU-00000007-0000-0000-0000-000000000007
serial = 1650023000007
minor = 7
pci.address = 00000000:84:00.0
