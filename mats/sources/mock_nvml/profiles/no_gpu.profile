# The driver is loaded and has no GPU.
[system]
driver = 575.57.08
nvml = 12.575.57.08
cuda = 12090
count = 0
