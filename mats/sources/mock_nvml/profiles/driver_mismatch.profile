# The library and the kernel module are of different versions: nothing starts until one of them is loaded anew.
[system]
init = !18
nvml = 12.570.172.08

[host]
system = Ubuntu 24.04.2 LTS
kernel = 6.8.0-60-generic
wsl = no
container = none
modules = nvidia, nvidia_modeset, nvidia_uvm
module = 570.133.07
nodes = nvidia0

[log]
| [    0.000000] Linux version 6.8.0-60-generic (buildd@lcy02-amd64-054) (x86_64-linux-gnu-gcc-13 13.3.0) #63-Ubuntu SMP PREEMPT_DYNAMIC
| [    5.884120] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.133.07  Fri Mar 14 13:12:07 UTC 2025
| [86211.400112] NVRM: API mismatch: the client has the version 570.172.08, but
| [86211.400113] NVRM: this kernel module has the version 570.133.07.  Please
| [86211.400114] NVRM: make sure that this kernel module and all NVIDIA driver
| [86211.400115] NVRM: components have the same version.

[pci]
| 1a:01.0 PCI bridge: Intel Corporation Device 352a (rev 04)
|     Bus: primary=1a, secondary=1b, subordinate=1b, sec-latency=0
|     Capabilities: [40] Express (v2) Root Port (Slot-), MSI 00
|         LnkCap: Port #0, Speed 32GT/s, Width x16, ASPM not supported
|         LnkSta: Speed 32GT/s, Width x16
| 1b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
|     Region 0: Memory at 23042000000 (64-bit, prefetchable) [size=16M]
|     Region 2: Memory at 20000000000 (64-bit, prefetchable) [size=128G]
|     Region 4: Memory at 23040000000 (64-bit, prefetchable) [size=32M]
|     Capabilities: [60] Express (v2) Endpoint, MSI 00
|         LnkCap: Port #0, Speed 32GT/s, Width x16, ASPM not supported
|         LnkSta: Speed 32GT/s, Width x16
|     Kernel driver in use: nvidia
