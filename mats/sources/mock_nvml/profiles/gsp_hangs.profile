# Two H100; the firmware of the first has stopped answering: calls that need it hang, the log says so.
[system]
like = h100x8
count = 2

[0]
temperature.0 = @3600 31
power = @3600 71234
clocks.reasons = @3600 0x1
field.230 = 1

[host]
nodes = nvidia0, nvidia1

[log]
| [    0.000000] Linux version 6.8.0-60-generic (buildd@lcy02-amd64-054) (x86_64-linux-gnu-gcc-13 13.3.0) #63-Ubuntu SMP PREEMPT_DYNAMIC
| [    5.102334] nvidia: loading out-of-tree module taints kernel.
| [    5.884120] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build
| [3300.118201] NVRM: Xid (PCI:0000:1b:00): 119, pid=20417, name=python3, Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL) (0x20801702 0x4).
| [3300.219988] NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)
