"""The Java that runs Kafka and Spark, and the errors of this folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from airflow_provider.errors import StatefulStreamsError


class JavaError(StatefulStreamsError):
    """No Java was found, or one that is too old."""


class JarsError(StatefulStreamsError):
    """The jars of some coordinates could not be resolved."""


MINIMUM_JAVA = 17
"""What Spark 4 and Kafka 4 need."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_HINT = f"Install a Java runtime >= {MINIMUM_JAVA} and put it on PATH, or name its folder in JAVA_HOME."


def find_java(java_home: str | None = None) -> Path:
    """Find a Java that is new enough.

    Args:
        java_home: the folder of a Java; None looks where spark-submit looks, `JAVA_HOME` and then `PATH`.

    Raises:
        JavaError: there is none, it does not run, or it is older than `MINIMUM_JAVA`.
    """
    home = java_home if java_home is not None else os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        place = f"in {home}/bin (JAVA_HOME)" if home else "on PATH"
        raise JavaError(f"Found no Java {place}. {_HINT}")
    banner = _banner(found)
    version = major_version(banner)
    if version is None:
        raise JavaError(f"{found} did not print a version, but: {banner.strip()[:200]!r}. {_HINT}")
    if version < MINIMUM_JAVA:
        raise JavaError(f"Found Java {version} at {found}, expected {MINIMUM_JAVA} or later. {_HINT}")
    return Path(found)


def major_version(banner: str) -> int | None:
    """Read the feature version out of what `java -version` prints; None where there is none.

    The old scheme is understood: `1.8.0_392` is 8.
    """
    match = _VERSION.search(banner)
    return int(match[1]) if match else None


def _banner(java: str) -> str:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(f"{java} does not run: {error}. {_HINT}") from error
    return done.stderr + done.stdout
