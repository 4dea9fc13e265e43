"""Installed as ``mats.kernels``; refuses its bare name, which belongs to other packages."""

if __name__ != "mats.kernels":
    raise ImportError("import mats.kernels, not kernels: install the project first (pip install -e .)")
