"""Kafka's data folder, formatted before a broker's first start."""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from collections.abc import Sequence

from airflow_provider.kit.errors import BrokerStartError
from airflow_provider.kit.folder import BrokerFolder
from airflow_provider.kit.properties_file import write_properties
from airflow_provider.kit.settings import BrokerSettings

__all__ = ["format_storage"]


def format_storage(folder: BrokerFolder, settings: BrokerSettings, java: Sequence[str], timeout_s: float) -> None:
    """Make Kafka's data folder beside its place, then move it there: it is never seen half made.

    Args:
        folder: the broker's folder, without data.
        settings: the broker's settings.
        java: the Java program with Kafka's class path.
        timeout_s: how long Kafka's tool may take.

    Raises:
        BrokerStartError: the tool failed or took too long.
    """
    scratch = folder.root / "data.new"
    shutil.rmtree(scratch, ignore_errors=True)
    properties = folder.root / "format.properties"
    write_properties(properties, settings.to_properties(scratch))
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    # An id may begin with a dash, which the tool takes for an option unless it is joined.
    command = [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(properties)]
    with folder.console_file.open("ab") as console:
        try:
            subprocess.run(command, stdout=console, stderr=console, timeout=timeout_s, check=True)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise BrokerStartError(
                f"Kafka could not format {scratch} within {timeout_s:.0f} s. Its last lines:\n{folder.last_lines()}"
            ) from error
    properties.unlink()
    scratch.rename(folder.data)
