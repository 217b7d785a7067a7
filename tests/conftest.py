"""Settings shared by all tests."""

from __future__ import annotations

from hypothesis import settings

# Machines under load miss deadlines without anything being wrong.
settings.register_profile("phasefusion", deadline=None)
settings.load_profile("phasefusion")
