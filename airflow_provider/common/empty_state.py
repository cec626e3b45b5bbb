"""How to begin again with empty state, in the words of every error that says so."""

from __future__ import annotations

from typing import Final

EMPTY_STATE: Final = (
    "another application id, or another store name where the stage keeps a store: name= of its aggregate(), process(), "
    "drop_duplicates() or join()"
)
"""To be put behind ``under`` or ``with``; ends without a full stop."""
