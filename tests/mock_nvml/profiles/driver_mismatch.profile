# The library and the kernel module are of different versions: nothing starts.
[system]
init = !18
