"""The spark-submit command of an instance, by the apache-spark provider's hook and connection."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider.errors import ConfigurationError
from airflow_provider.launch.spark_command import (
    check_master,
    connector_jars,
    find_binary,
    interpreters,
    spark_settings,
)


class SparkInstanceHook(SparkSubmitHook):
    """Says how to start an instance with spark-submit, and starts nothing itself.

    Master, deploy mode, binary, queue and namespace are those of the Airflow connection. The Kafka connector's jars
    are added unless `conf` names ``spark.jars`` or ``spark.jars.packages``. They come from the user's cache; where it
    lacks them they are resolved once, from the mirror that ``spark.jars.ivySettings`` in `conf` names, or else from
    Maven Central (docs/adr/0007). Nothing secret is in the command.

    Args:
        spark_conn_id: connection of type ``spark``, with a local master or in client mode.
        conf: Spark settings; they win over those set here. Spark's UI is off unless ``spark.ui.enabled`` is set.
        python: the job's own interpreter, beside which spark-submit lies; empty for Airflow's.

    Raises:
        ConfigurationError: there is no such connection, it asks for cluster mode, spark-submit is not
            found, or a setting is a secret.
    """

    def __init__(
        self,
        spark_conn_id: str = SparkSubmitHook.default_conn_name,
        conf: Mapping[str, str] | None = None,
        name: str = "stateful-streams",
        application_args: Sequence[str] = (),
        env_vars: Mapping[str, str] | None = None,
        python: str = "",
    ) -> None:
        try:
            # The provider would take a missing connection for YARN.
            BaseHook.get_connection(spark_conn_id)
        except AirflowNotFoundException as error:
            raise ConfigurationError(
                f"There is no Spark connection {spark_conn_id!r}: create it with type 'spark' and the master as its "
                "host, for example 'local[2]'."
            ) from error
        self._user_conf, self._python = dict(conf or {}), python
        environment = {**interpreters(self._user_conf, python), **(env_vars or {})}
        super().__init__(
            conf=spark_settings(self._user_conf, environment),
            conn_id=spark_conn_id,
            name=name,
            application_args=list(application_args),
            env_vars=environment,
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
        """Spark-submit and its arguments for a job file.

        Raises:
            ConfigurationError: the connection's master is none (`check_master`).
            JarsError: the Kafka connector's jars could not be resolved.
        """
        if jars := connector_jars(self._user_conf):
            self._jars = ",".join(map(str, jars))
        command: list[str] = self._build_spark_submit_command(application)
        check_master(self._connection["master"], os.environ | self.environment, command[0])
        return command

    def _get_spark_binary_path(self) -> list[str]:
        return [find_binary(self._connection["spark_binary"], self._python)]
