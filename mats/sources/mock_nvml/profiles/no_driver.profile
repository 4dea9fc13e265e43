# No driver is loaded: nothing starts; the bus shows the card.
[system]
init = !9

[host]
system = Ubuntu 24.04.2 LTS
kernel = 6.8.0-60-generic
wsl = no
container = none
modules =
nodes =

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
