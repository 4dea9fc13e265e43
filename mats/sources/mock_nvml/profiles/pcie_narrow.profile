# One H100 that works, over 8 lanes of 16, with many replays: a bad contact.
[system]
like = h100x8
count = 1
process.20417 = python3

[0]
busy = 97, 40
clocks.reasons = 0x0
pcie.width = 8
pcie.loaded = 5, 8
pcie.replays = 18211
field.95 = 4
field.169 = 211
field.173 = 18215
field.178 = 18211
processes.compute = 20417 64424509440
memory = 85520809984, 589299712, 64960331776

[host]
nodes = nvidia0

[log]
| [    0.000000] Linux version 6.8.0-60-generic (buildd@lcy02-amd64-054) (x86_64-linux-gnu-gcc-13 13.3.0) #63-Ubuntu SMP PREEMPT_DYNAMIC
| [    5.102334] nvidia: loading out-of-tree module taints kernel.
| [    5.884120] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build
| [    3.771204] pci 0000:1b:00.0: 252.048 Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x8 link at 0000:1a:01.0 (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)
| [ 2211.104411] pcieport 0000:1a:01.0: AER: Correctable error message received from 0000:1b:00.0
| [ 2211.104420] nvidia 0000:1b:00.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Transmitter ID)
| [ 2211.104423] nvidia 0000:1b:00.0:   device [10de:2330] error status/mask=00001000/0000a000
| [ 2211.104425] nvidia 0000:1b:00.0:    [12] Timeout

[pci]
| 1a:01.0 PCI bridge: Intel Corporation Device 352a (rev 04)
|     Bus: primary=1a, secondary=1b, subordinate=1b, sec-latency=0
|     Capabilities: [40] Express (v2) Root Port (Slot-), MSI 00
|         LnkCap: Port #0, Speed 32GT/s, Width x16, ASPM not supported
|         LnkSta: Speed 32GT/s, Width x8 (downgraded)
| 1b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
|     Region 0: Memory at 23042000000 (64-bit, prefetchable) [size=16M]
|     Region 2: Memory at 20000000000 (64-bit, prefetchable) [size=128G]
|     Region 4: Memory at 23040000000 (64-bit, prefetchable) [size=32M]
|     Capabilities: [60] Express (v2) Endpoint, MSI 00
|         LnkCap: Port #0, Speed 32GT/s, Width x16, ASPM not supported
|         LnkSta: Speed 32GT/s, Width x8 (downgraded)
|     Capabilities: [100 v2] Advanced Error Reporting
|         UESta:  DLP- SDES- TLP- FCP- CmpltTO- CmpltAbrt- UnxCmplt- RxOF- MalfTLP- ECRC- UnsupReq- ACSViol-
|         CESta:  RxErr- BadTLP- BadDLLP- Rollover- Timeout- AdvNonFatalErr-
|     Kernel driver in use: nvidia
