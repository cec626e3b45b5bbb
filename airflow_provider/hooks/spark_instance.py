"""The spark-submit command of an instance, by the apache-spark provider's hook and connection."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider.errors import ConfigurationError

__all__ = ["SparkInstanceHook"]

_REDACTED: Final = {
    # Spark's own defaults, and what Kafka calls its credentials.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|sasl|jaas",
    "spark.sql.redaction.options.regex": "(?i)url|password|sasl|jaas",
}
_JARS: Final = ("spark.jars", "spark.jars.packages")


class SparkInstanceHook(SparkSubmitHook):
    """Says how to start an instance with spark-submit, and starts nothing itself.

    Master, deploy mode, binary, queue and namespace are those of the Airflow connection. The Kafka connector's jars
    are added unless `conf` names ``spark.jars`` or ``spark.jars.packages``. Nothing secret is in the command.

    Args:
        spark_conn_id: connection of type ``spark``, with a local master or in client mode.
        conf: Spark settings; they win over those set here.
        name: of the Spark application.
        application_args: arguments of the job's file.
        env_vars: environment of the job.

    Raises:
        ConfigurationError: there is no such connection, it asks for cluster mode, or spark-submit is not found.
    """

    def __init__(
        self,
        spark_conn_id: str = SparkSubmitHook.default_conn_name,
        conf: Mapping[str, str] | None = None,
        name: str = "stateful-streams",
        application_args: Sequence[str] = (),
        env_vars: Mapping[str, str] | None = None,
    ) -> None:
        try:
            # The provider would take a missing connection for YARN.
            BaseHook.get_connection(spark_conn_id)
        except AirflowNotFoundException as error:
            raise ConfigurationError(
                f"There is no Spark connection {spark_conn_id!r}: create it with type 'spark' and the master as its "
                "host, for example 'local[2]'."
            ) from error
        self._user_conf = dict(conf or {})
        super().__init__(
            conf=_REDACTED | self._user_conf,
            conn_id=spark_conn_id,
            name=name,
            application_args=list(application_args),
            env_vars={**_interpreters(self._user_conf), **(env_vars or {})},
        )
        if self._connection["deploy_mode"] == "cluster":
            raise ConfigurationError(
                f"Spark connection {spark_conn_id!r} asks for deploy mode 'cluster': an instance is watched by its "
                "launcher, which has to be the driver's parent. Set deploy mode 'client' on the connection."
            )

    @property
    def environment(self) -> dict[str, str]:
        """What has to be added to the environment of the command."""
        return {name: str(value) for name, value in (self._env_vars or {}).items()}

    def command(self, application: str) -> list[str]:
        """Spark-submit and its arguments for a job's file.

        Raises:
            JarsError: the Kafka connector's jars could not be resolved.
        """
        if not any(self._user_conf.get(key) for key in _JARS):
            from airflow_provider.embedded.jars import spark_kafka_jars

            self._jars = ",".join(str(path) for path in spark_kafka_jars())
        command: list[str] = self._build_spark_submit_command(application)
        return command

    def _get_spark_binary_path(self) -> list[str]:
        binary = self._connection["spark_binary"]
        # pip puts it beside the interpreter, which a scheduler's PATH need not hold.
        found = shutil.which(binary) or shutil.which(binary, path=str(Path(sys.executable).parent))
        if found is None:
            raise ConfigurationError(
                f"{binary!r} is neither on PATH nor beside {sys.executable}: install pyspark there, or set "
                "'spark-binary' on the Spark connection."
            )
        return [found]


def _interpreters(conf: Mapping[str, str]) -> dict[str, str]:
    """The driver's and the workers' Python: this one, unless the settings name another."""
    names = {"PYSPARK_DRIVER_PYTHON": "spark.pyspark.driver.python", "PYSPARK_PYTHON": "spark.pyspark.python"}
    return {variable: sys.executable for variable, key in names.items() if key not in conf}
