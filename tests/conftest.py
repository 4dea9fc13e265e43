"""Settings of every test: a busy machine makes no test fail, so that examples have no deadline."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("mats", deadline=None)
settings.load_profile("mats")
