"""Readers of passive state; the only importers of pynvml."""
