"""The doors: the only importers of cupy and of the native host module."""
