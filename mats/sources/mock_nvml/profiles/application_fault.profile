# One healthy H100; the log holds a memory fault of a program, which is the program's own.
[system]
like = h100x8
count = 1

[0]
busy = 0, 0

[host]
nodes = nvidia0

[log]
| [    0.000000] Linux version 6.8.0-60-generic (buildd@lcy02-amd64-054) (x86_64-linux-gnu-gcc-13 13.3.0) #63-Ubuntu SMP PREEMPT_DYNAMIC
| [    5.102334] nvidia: loading out-of-tree module taints kernel.
| [    5.884120] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build
| [9120.480011] NVRM: Xid (PCI:0000:1b:00): 31, pid=20417, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC2 GPCCLIENT_T1_3 faulted @ 0x7f1a_c0000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ
| [9120.481200] NVRM: Xid (PCI:0000:1b:00): 43, pid=20417, name=python3, Ch 00000008
