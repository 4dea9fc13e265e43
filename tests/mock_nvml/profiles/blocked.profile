# A container that has lost its access to the devices: the library is there and knows nothing.
[system]
init = !999
