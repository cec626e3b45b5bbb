"""Whether an instance can keep its stores where it was told to."""

from __future__ import annotations

import functools
from pathlib import Path

from airflow_provider.errors import ConfigurationError
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.state.directory import StateDirectory
from airflow_provider.streaming.driver.store_host import StoreHost

__all__ = ["check_state_folder"]


def check_state_folder(host: StoreHost, settings: InstanceSettings) -> None:
    """Refuse a state folder that cannot be made or written to, before any task is opened in it.

    Args:
        host: where the stores lie.
        settings: of the instance.

    Raises:
        ConfigurationError: it cannot be used.
    """
    found = host.call(functools.partial(_finding, settings.state_dir, settings.application_id))
    if found is not None:
        raise ConfigurationError(found)


def _finding(state_dir: str, application_id: str) -> str | None:
    try:
        StateDirectory(Path(state_dir), application_id).check()
    except ConfigurationError as error:
        return str(error)
    return None
