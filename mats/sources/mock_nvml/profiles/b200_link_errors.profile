# One B200; a link has lost packets and recovered, and bits are in error after correction.
[system]
like = b200

[0]
field.208.4 = 12
field.212.4 = 3
field.213.4 = 1
field.215.4 = 1
field.219.4 = 801
field.220.4 = 1286
field.221.4 = 90211
field.222.4 = 2058

[log]
| [    0.000000] Linux version 6.8.0-60-generic (buildd@lcy02-amd64-054) (x86_64-linux-gnu-gcc-13 13.3.0) #63-Ubuntu SMP PREEMPT_DYNAMIC
| [    5.102334] nvidia: loading out-of-tree module taints kernel.
| [    5.884120] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build
| [8801.220119] NVRM: Xid (PCI:0000:1b:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 04 (0x00000008 0x00000008 0x00000000 0x00000000 0x00000000 0x00000000)
