"""Whether an instance can keep its stores where it was told to."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider.errors import ConfigurationError
from airflow_provider.launch.instance_settings import InstanceSettings
from airflow_provider.state.directory import StateDirectory
from airflow_provider.streaming.driver.single_executor import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_state_folder"]


def check_state_folder(spark: SparkSession, settings: InstanceSettings) -> None:
    """Refuse a state folder that cannot be made or written to, before any task is opened in it.

    Args:
        spark: the session. With a cluster its executor has the stores, and looks.
        settings: of the instance.

    Raises:
        ConfigurationError: it cannot be used.
    """
    look = functools.partial(_finding, settings.state_dir, settings.application_id)
    if is_local(spark.sparkContext.master or ""):
        found = look()
    else:
        found = spark.sparkContext.parallelize([None], 1).map(look).first()
    if found is not None:
        raise ConfigurationError(found)


def _finding(state_dir: str, application_id: str, _: None = None) -> str | None:
    try:
        StateDirectory(Path(state_dir), application_id).check()
    except ConfigurationError as error:
        return str(error)
    return None
