"""What an instance gets when it is started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from airflow_provider.common.files import create_private_file, make_private_folder
from airflow_provider.control.records.deployment import Deployment
from airflow_provider.control.records.status import FormerProcess
from airflow_provider.errors import ConfigurationError
from airflow_provider.failpoint import parse_fail_point
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import check_name

INSTANCE_FILE_VARIABLE: Final = "STATEFUL_STREAMS_INSTANCE_FILE"
"""Environment variable with the path of the file that holds the settings."""

PROCESS_OF_VARIABLE: Final = "STATEFUL_STREAMS_PROCESS_OF"
"""Environment variable of all processes of an instance: its application and its name, with a slash between them."""

ARENAS_VARIABLE: Final = "MALLOC_ARENA_MAX"
"""Environment variable of glibc's: how many heaps the threads of a process share."""

EXIT_REPORTED: Final = 3
"""Exit status of an instance that ended with an error and has reported it: its launcher must not report less."""

_VERSION: Final = 1
"""Of the file. A change that an older reader would misunderstand makes it greater."""


@dataclass(frozen=True, kw_only=True)
class InstanceSettings:
    """One process of an instance.

    Kept in a file that only its owner may read, because the connection holds a password.

    Args:
        incarnation: this process of it, epoch ms of its launch; greater is newer.
        state_dir: folder for the stores; kept over restarts, on a local disk.
        run_dir: folder for the log and for Spark's checkpoint, which is scratch.
        former: the process of this instance before it, where that failed; reported in the status.
        round_interval_s: how long a slot may be idle before a round follows its standbys' changelogs; longer
            after rounds that found nothing new, up to 2 s with standbys and 5 s without.
        call_timeout_s: how long a call into a Python worker may take, a whole micro-batch included; then the worker is
            ended. Above what the brokers' and the stores' own deadlines may add up to.
        verify_interval_s: how often the topics are looked at, as they were at the start.
        metrics_interval_s: how often a record of its figures is kept for a week.
        quarantine_max_stores: how many bad stores are kept for people to look at.
        quarantine_max_bytes: how large they may be together.
        run_max_days: how many days they are kept; the newest stays.
        fail_points: places to die at, for tests (`airflow_provider.failpoint`).
    """

    application_id: str
    instance: str
    incarnation: int
    state_dir: str
    run_dir: str
    connection: KafkaConnection
    former: FormerProcess | None = None
    heartbeat_interval_s: float = 1.0
    log_file: str | None = None
    round_interval_s: float = 0.5
    call_timeout_s: float = 600.0
    verify_interval_s: float = 10.0
    metrics_interval_s: float = 60.0
    quarantine_max_stores: int = 4
    quarantine_max_bytes: int = 10 << 30
    run_max_folders: int = Deployment.run_max_folders
    run_max_days: float = 30.0
    log_max_bytes: int = Deployment.log_max_bytes
    fail_points: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_name("application id", self.application_id)
        check_name("instance", self.instance)
        for name in ("heartbeat_interval_s", "call_timeout_s", "verify_interval_s", "metrics_interval_s"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"{name} is {getattr(self, name):g}: it must be above 0 seconds.")
        for fail_point in self.fail_points:
            parse_fail_point(fail_point)

    def write(self, path: Path) -> None:
        """Write to a new file that only its owner may read, in a folder in which nobody else can replace it.

        Raises:
            ConfigurationError: another user could replace the file.
            OSError: it is there already, or cannot be written.
        """
        make_private_folder(path.parent)
        create_private_file(path, msgspec.json.encode({"version": _VERSION, **msgspec.to_builtins(self)}))

    @classmethod
    def read(cls, path: Path) -> InstanceSettings:
        """The inverse of `write`.

        Raises:
            ConfigurationError: the file is missing, holds something else, or is of a newer version.
        """
        try:
            raw = path.read_bytes()
            if (version := msgspec.json.decode(raw, type=_File).version) > _VERSION:
                raise ConfigurationError(
                    f"{path} holds version {version} of an instance's settings, and this installation reads up to "
                    f"version {_VERSION}: install the release that deployed the instance where the job runs."
                )
            return msgspec.json.decode(raw, type=cls)
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigurationError(
                f"{path} does not hold an instance's settings ({error}): deploy the instance again."
            ) from error


@dataclass(frozen=True)
class _File:
    """What any version of the file holds."""

    version: int = 0
