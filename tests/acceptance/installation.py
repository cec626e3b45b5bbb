"""The package as a user gets it: a wheel, installed by pip beside Airflow in an environment of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.acceptance.errors import AcceptanceError

__all__ = ["build_wheel", "install", "plain_environment"]

ROOT: Final = Path(__file__).parents[2]
_BUILD_S: Final = 300.0
_INSTALL_S: Final = 1200.0
_BESIDE: Final = ("apache-airflow-providers-edge3",)
"""What the run needs besides the wheel: the executor that has workers and queues without a message broker."""
_FOREIGN: Final = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")


def plain_environment() -> dict[str, str]:
    """This process's environment without what would lead to the checkout's own packages."""
    environment = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    here = str(Path(sys.executable).parent)
    environment["PATH"] = os.pathsep.join(p for p in environment["PATH"].split(os.pathsep) if p != here)
    return environment


def build_wheel(folder: Path) -> Path:
    """Build it from the checkout.

    Raises:
        AcceptanceError: that failed.
    """
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], ROOT, _BUILD_S)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """Install it with all that it needs, as pip is configured here, in the versions of the lock.

    Args:
        wheel: the package.
        folder: of the environment, which is made.

    Returns:
        The environment's Python.

    Raises:
        AcceptanceError: that failed.
    """
    constraints = folder.with_name("constraints.txt")
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    constraints.write_text("\n".join(re.findall(r"^[a-z0-9][^\\\n]*==[^\\\n]*", lock, re.MULTILINE)) + "\n")
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder)], ROOT, _INSTALL_S)
    python = folder / "bin" / "python"
    # uv reads pip's settings of indexes as the Makefile hands them over, and is several times faster.
    command = [str(Path(sys.executable).parent / "uv"), "pip", "install", "--quiet", "--python", str(python)]
    _run([*command, "--constraint", str(constraints), str(wheel), *_BESIDE], folder, _INSTALL_S)
    return python


def _run(command: list[str], folder: Path, timeout_s: float) -> None:
    done = subprocess.run(
        command, cwd=folder, env=plain_environment(), capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise AcceptanceError(f"{' '.join(command[:6])} ... ended with status {done.returncode}:\n{said}")
