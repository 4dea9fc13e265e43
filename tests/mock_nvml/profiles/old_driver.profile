# One P100 on a driver of 2019: many calls do not exist there, which is not the same as not supported.
[system]
driver = 418.87.00
nvml = 10.418.87.00
cuda = 10010
count = 1
missing = nvmlDeviceGetMemoryInfo_v2 nvmlDeviceGetRemappedRows nvmlDeviceGetRowRemapperHistogram nvmlDeviceGetCurrentClocksEventReasons nvmlDeviceGetComputeRunningProcesses_v3 nvmlDeviceGetGraphicsRunningProcesses_v3 nvmlDeviceGetMPSComputeRunningProcesses_v3 nvmlDeviceGetMPSComputeRunningProcesses_v2 nvmlDeviceGetGpuFabricInfoV nvmlDeviceGetSramEccErrorStatus nvmlDeviceGetMarginTemperature nvmlDeviceGetTemperatureV nvmlDeviceGetArchitecture nvmlDeviceGetGspFirmwareVersion nvmlDeviceGetGspFirmwareMode nvmlDeviceGetRepairStatus nvmlDeviceGetUnrepairableMemoryFlag_v1 nvmlDeviceGetAddressingMode nvmlDeviceGetDriverModel_v2 nvmlDeviceGetMigMode

[all]
name = Tesla P100-PCIE-16GB
architecture = 4
capability = 6, 0
vbios = 86.00.4D.00.01
persistence = 1
compute_mode = 0
virtualisation = 0
pci.device = 0x15f810de
pci.subsystem = 0x118f10de
memory = 17071734784, 0, 1048576
bar1 = 17179869184, 1048576
temperature.0 = 31
power = 71234
power.enforced = 250000
power.default = 250000
power.limit = 250000
power.constraints = 125000, 250000
pstate = 0
busy = 0, 0
clock.0 = 1328
clock.1 = 1328
clock.2 = 715
clock.maximum.0 = 1328
clock.maximum.1 = 1328
clock.maximum.2 = 715
clocks.reasons = 0x1
held.0 = 0
held.1 = 0
ecc.mode = 1, 1
ecc.volatile.corrected = 0
ecc.volatile.uncorrected = 0
ecc.aggregate.corrected = 0
ecc.aggregate.uncorrected = 0
pcie.generation = 3
pcie.width = 16
pcie.generation.maximum = 3
pcie.width.maximum = 16
pcie.generation.device = 3
pcie.replays = 0
inforom.image = H400.0202.00.01
inforom.valid = 0
processes.compute = 3001 524288000
processes.graphics =
processes.mps =
retired.0 = 0
retired.1 = 0
retired.pending = 0

[0]
uuid = GPU-00000000-0000-0000-0000-000000000000
serial = 1650023000000
minor = 0
pci.address = 00000000:3b:00.0
