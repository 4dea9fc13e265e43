# A Jetson Orin: NVML is there and tells hardly more than the name; the memory is the machine's own.
[system]
driver = 540.4.0
nvml = 12.540.4.0
cuda = 12060
count = 1

[all]
name = Orin (nvgpu)
architecture = 7
virtualisation = 0
mig.mode = !3

[0]
uuid = GPU-00000000-0000-0000-0000-0000000000e1
