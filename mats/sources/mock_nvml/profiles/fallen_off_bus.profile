# Two H100; the first has fallen off the bus after it was found: all it had to say is lost.
[system]
like = h100x8
count = 2

[0]
every_call = !15
field.226 = !15
field.227 = !15
field.230 = !15

[host]
nodes = nvidia0, nvidia1

[log]
| [    0.000000] Linux version 6.8.0-60-generic (buildd@lcy02-amd64-054) (x86_64-linux-gnu-gcc-13 13.3.0) #63-Ubuntu SMP PREEMPT_DYNAMIC
| [    5.102334] nvidia: loading out-of-tree module taints kernel.
| [    5.884120] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build
| [4417.310052] NVRM: GPU at PCI:0000:1b:00: GPU-00000000-0000-0000-0000-000000000000
| [4417.310060] NVRM: GPU Board Serial Number: 1650023000000
| [4417.310063] NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
| [4417.310067] NVRM: GPU 0000:1b:00.0: GPU has fallen off the bus.
| [4417.310070] NVRM: GPU 0000:1b:00.0: GPU serial number is 1650023000000.
| [4417.318212] NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)

[pci]
| 1a:01.0 PCI bridge: Intel Corporation Device 352a (rev 04)
|     Bus: primary=1a, secondary=1b, subordinate=1b, sec-latency=0
|     Capabilities: [40] Express (v2) Root Port (Slot-), MSI 00
|         LnkCap: Port #0, Speed 32GT/s, Width x16, ASPM not supported
|         LnkSta: Speed 2.5GT/s, Width x0
| 1b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev ff) (prog-if ff)
|     !!! Unknown header type 7f
|     Kernel driver in use: nvidia
| 29:01.0 PCI bridge: Intel Corporation Device 352a (rev 04)
|     Bus: primary=29, secondary=2a, subordinate=2a, sec-latency=0
|     Capabilities: [40] Express (v2) Root Port (Slot-), MSI 00
|         LnkCap: Port #0, Speed 32GT/s, Width x16, ASPM not supported
|         LnkSta: Speed 32GT/s, Width x16
| 2a:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
|     Region 0: Memory at 23042000000 (64-bit, prefetchable) [size=16M]
|     Region 2: Memory at 20000000000 (64-bit, prefetchable) [size=128G]
|     Region 4: Memory at 23040000000 (64-bit, prefetchable) [size=32M]
|     Capabilities: [60] Express (v2) Endpoint, MSI 00
|         LnkCap: Port #0, Speed 32GT/s, Width x16, ASPM not supported
|         LnkSta: Speed 32GT/s, Width x16
|     Capabilities: [100 v2] Advanced Error Reporting
|         UESta:  DLP- SDES- TLP- FCP- CmpltTO- CmpltAbrt- UnxCmplt- RxOF- MalfTLP- ECRC- UnsupReq- ACSViol-
|         CESta:  RxErr- BadTLP- BadDLLP- Rollover- Timeout- AdvNonFatalErr-
|     Kernel driver in use: nvidia
