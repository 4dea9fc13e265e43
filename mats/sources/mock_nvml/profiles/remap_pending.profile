# Two H100; a row of the second is to be remapped by a reset after one uncorrectable error.
[system]
like = h100x8
count = 2

[1]
ecc.volatile.uncorrected = 1
ecc.aggregate.uncorrected = 1
ecc.volatile.uncorrected.2 = 1
ecc.aggregate.uncorrected.2 = 1
remap = 0, 1, 1, 0
remap.banks = 2559, 1, 0, 0, 0
field.230 = 1

[host]
nodes = nvidia0, nvidia1

[log]
| [    0.000000] Linux version 6.8.0-60-generic (buildd@lcy02-amd64-054) (x86_64-linux-gnu-gcc-13 13.3.0) #63-Ubuntu SMP PREEMPT_DYNAMIC
| [    5.102334] nvidia: loading out-of-tree module taints kernel.
| [    5.884120] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build
| [7220.553120] NVRM: Xid (PCI:0000:2a:00): 48, pid=20417, name=python3, DBE (double bit error) ECC Error
| [7220.553702] NVRM: Xid (PCI:0000:2a:00): 63, pid=20417, name=python3, Row Remapper: New row (0x0000000000a1b000) marked for remapping, reset gpu to activate.
| [7220.561001] NVRM: Xid (PCI:0000:2a:00): 94, pid=20417, name=python3, Contained: SM (0x1). RST: No, D-RST: No
