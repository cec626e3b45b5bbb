"""Instances that the real launcher started."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def end_instances(run_dir: Path) -> None:
    """End with SIGKILL whatever still runs of those whose run folders lie there."""
    for file in run_dir.glob("*/process_group"):
        with suppress(ProcessLookupError):
            os.killpg(int(file.read_text()), signal.SIGKILL)
