"""Two processes of one user on one machine, one of which lends the memory of its device to the other.

Nothing here knows of CUDA: what makes memory known to another process is a :class:`mats.peer.lending.Lending`, given
by the family of devices, so that the same conversation runs over simulated devices.
"""
