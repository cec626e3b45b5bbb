from __future__ import annotations

from hypothesis import settings

# How long one example takes is the machine's affair.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")
