"""What an instance is told when it is started."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from airflow_provider.connection import KafkaConnection
from airflow_provider.errors import ConfigurationError
from airflow_provider.names import check_name

__all__ = ["EXIT_TOLD", "INSTANCE_FILE_VARIABLE", "InstanceSettings"]

INSTANCE_FILE_VARIABLE: Final = "STATEFUL_STREAMS_INSTANCE_FILE"
"""Environment variable with the path of the file that holds the settings."""

EXIT_TOLD: Final = 3
"""Exit status of an instance that ended with an error and told it itself: nobody needs to tell less over it."""


@dataclass(frozen=True)
class InstanceSettings:
    """One process of an instance.

    Kept in a file that only its owner may read, because the connection holds a password.

    Args:
        application_id: the application that the job's file must name too.
        instance: this instance's name, the same over restarts.
        incarnation: this process of it, epoch ms of its launch; greater is newer.
        state_dir: folder for the stores; kept over restarts, on a local disk.
        run_dir: folder for the log and for Spark's checkpoint, which is scratch.
        connection: the Kafka cluster.
        heartbeat_interval_s: how often a status is sent.
        log_file: where the process's output goes; told in the status.
        round_interval_s: how long a slot may be idle before a round follows its standbys' changelogs.
        call_timeout_s: how long a call into a Python worker may take, a whole micro-batch included; then the worker is
            ended. Above what the brokers' and the stores' own deadlines may add up to.
        verify_interval_s: how often the topics are looked at, as they were at the start.
        quarantine_max_stores: how many bad stores are kept for people to look at.
        quarantine_max_bytes: how large they may be together.
        fail_points: places to die at, for tests (`airflow_provider.failpoint`).
    """

    application_id: str
    instance: str
    incarnation: int
    state_dir: str
    run_dir: str
    connection: KafkaConnection
    heartbeat_interval_s: float = 1.0
    log_file: str | None = None
    round_interval_s: float = 0.5
    call_timeout_s: float = 600.0
    verify_interval_s: float = 30.0
    quarantine_max_stores: int = 4
    quarantine_max_bytes: int = 10 << 30
    fail_points: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse names that cannot be topics and folders."""
        check_name("application id", self.application_id)
        check_name("instance", self.instance)
        for name in ("heartbeat_interval_s", "call_timeout_s", "verify_interval_s"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"{name} is {getattr(self, name):g}: it must be above 0 seconds.")

    def write(self, path: Path) -> None:
        """Write to a new file that only its owner may read."""
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(self))

    @classmethod
    def read(cls, path: Path) -> InstanceSettings:
        """The inverse of `write`.

        Raises:
            ConfigurationError: the file is missing or holds something else.
        """
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigurationError(
                f"{path} does not hold an instance's settings ({error}): deploy the instance again."
            ) from error
