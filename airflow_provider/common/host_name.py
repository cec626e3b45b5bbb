"""What the machine is called on which this process runs."""

from __future__ import annotations

import os
from typing import Final

HOST_VARIABLE: Final = "STATEFUL_STREAMS_HOST"
"""Environment variable with the name of the machine, where the system's own does not say what is lost together."""


def host_name() -> str:
    """By which copies of a task are kept apart: in a pod its node's, given in `HOST_VARIABLE`; else the system's."""
    return os.environ.get(HOST_VARIABLE) or os.uname().nodename
