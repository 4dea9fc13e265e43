# One healthy H100 of a board, at rest; its log and its PCIe path are clean.
[system]
like = h100x8
count = 1

[host]
nodes = nvidia0

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
|     Capabilities: [100 v2] Advanced Error Reporting
|         UESta:  DLP- SDES- TLP- FCP- CmpltTO- CmpltAbrt- UnxCmplt- RxOF- MalfTLP- ECRC- UnsupReq- ACSViol-
|         CESta:  RxErr- BadTLP- BadDLLP- Rollover- Timeout- AdvNonFatalErr-
|     Kernel driver in use: nvidia
