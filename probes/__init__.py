"""Installed as ``mats.probes``; refuses its bare name, which belongs to other packages."""

if __name__ != "mats.probes":
    raise ImportError("import mats.probes, not probes: install the project first (pip install -e .)")
