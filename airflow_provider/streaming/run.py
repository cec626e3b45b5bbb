"""Running a job as an instance."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from pathlib import Path

from airflow_provider.errors import ConfigurationError
from airflow_provider.launch.instance_settings import INSTANCE_FILE_VARIABLE, InstanceSettings
from airflow_provider.launch.job_file import DESCRIBE_VARIABLE
from airflow_provider.launch.run_folder import RunFolder
from airflow_provider.streaming.planner.job import StatefulJob


def run(job: StatefulJob) -> None:
    """Run a job as the instance that the launcher's environment names, until it is asked to stop; then exit.

    Where ``STATEFUL_STREAMS_DESCRIBE`` is ``text``, ``mermaid`` or ``json``, print what the job is made of and exit.

    Raises:
        ConfigurationError: the job was not started by a launcher, or has snapshots that this host cannot open.
    """
    if asked := os.environ.get(DESCRIBE_VARIABLE):
        print(job.describe(asked))  # type: ignore[arg-type]  # refuses what is none of them
        sys.exit(0)
    # A Python worker imports the front door too, and must not load what runs beside the JVM.
    from airflow_provider.control.topics.writer import ControlWriter
    from airflow_provider.snapshot.remote import check_protocol
    from airflow_provider.streaming.driver.heartbeat import Heartbeat
    from airflow_provider.streaming.driver.instance import Instance

    path = os.environ.get(INSTANCE_FILE_VARIABLE)
    if not path:
        raise ConfigurationError(
            f"{INSTANCE_FILE_VARIABLE} is not set: start the job with 'stateful-streams run', or deploy it with "
            "DeployInstanceOperator."
        )
    settings = InstanceSettings.read(Path(path))
    if settings.application_id != job.application_id:
        raise ConfigurationError(
            f"The job's application id is {job.application_id!r}, it was deployed as {settings.application_id!r}: "
            "deploy it under the id that the job file names."
        )
    if job.call_timeout_s is not None:
        settings = dataclasses.replace(settings, call_timeout_s=job.call_timeout_s)
    # Only here: where the job is tested or deployed from, the package for the protocol need not be.
    if job.snapshot_settings is not None:
        check_protocol(job.snapshot_settings.url)
    # What the launcher starts ignores signals. Who finds this process noted may end it by one.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    RunFolder(Path(settings.run_dir)).driver.write_text(str(os.getpid()))
    writer = ControlWriter(settings.connection, settings.application_id)
    sys.exit(Instance(job, settings, Heartbeat(settings, writer)).run())
