"""The native part of the build; everything else is in pyproject.toml.

The extension is optional: without a compiler the installation succeeds, and the targets that need it
(``host`` and ``sim``) say what to install.
"""

from setuptools import Extension, setup

EXTENSIONS: list[Extension] = []

setup(ext_modules=EXTENSIONS)
