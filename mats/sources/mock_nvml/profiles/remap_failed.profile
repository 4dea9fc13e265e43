# One H100 on which a row could not be remapped, since a bank has no spare row left.
[system]
like = h100x8
count = 1

[0]
ecc.volatile.uncorrected = 1
ecc.aggregate.uncorrected = 9
ecc.volatile.uncorrected.2 = 1
ecc.aggregate.uncorrected.2 = 9
remap = 0, 8, 0, 1
remap.banks = 2559, 0, 0, 0, 1

[host]
nodes = nvidia0

[log]
| [    0.000000] Linux version 6.8.0-60-generic (buildd@lcy02-amd64-054) (x86_64-linux-gnu-gcc-13 13.3.0) #63-Ubuntu SMP PREEMPT_DYNAMIC
| [    5.102334] nvidia: loading out-of-tree module taints kernel.
| [    5.884120] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build
| [7220.553120] NVRM: Xid (PCI:0000:1b:00): 48, pid=20417, name=python3, DBE (double bit error) ECC Error
| [7220.553702] NVRM: Xid (PCI:0000:1b:00): 64, pid=20417, name=python3, Row Remapper: Row (0x0000000000a1b000) could not be remapped
