"""Installed as ``mats.reports``; refuses its bare name, which belongs to other packages."""

if __name__ != "mats.reports":
    raise ImportError("import mats.reports, not reports: install the project first (pip install -e .)")
