# Two H100; the second waits for a reset: most calls refuse, the recovery action says so.
[system]
like = h100x8
count = 2

[1]
every_call = !16
field.226 = 1
field.230 = 1

[host]
nodes = nvidia0, nvidia1

[log]
| [    0.000000] Linux version 6.8.0-60-generic (buildd@lcy02-amd64-054) (x86_64-linux-gnu-gcc-13 13.3.0) #63-Ubuntu SMP PREEMPT_DYNAMIC
| [    5.102334] nvidia: loading out-of-tree module taints kernel.
| [    5.884120] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build
| [86411.220134] NVRM: Xid (PCI:0000:2a:00): 95, pid='<unknown>', name=<unknown>, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No
| [86411.220901] NVRM: Xid (PCI:0000:2a:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)
