"""The spark-submit command of an instance: what is the same for every way to start it."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from airflow_provider.errors import ConfigurationError

__all__ = ["connector_jars", "find_binary", "interpreters", "spark_command", "spark_settings"]

_REDACTED: Final = {
    # Spark's own defaults, and what Kafka calls its credentials.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|sasl|jaas|keystore",
    "spark.sql.redaction.options.regex": "(?i)url|password|sasl|jaas|keystore",
}
_DEFAULTS: Final = {
    **_REDACTED,
    # One UI for each instance would fight over ports; who wants to look into Spark turns it on.
    "spark.ui.enabled": "false",
}

_SECRET: Final = re.compile(r"(?i)(secret|password|token|(secret|access)[.]?key)$")
"""The end of a setting's name where its value is the secret itself, and no path of a file that holds it."""

_JARS: Final = ("spark.jars", "spark.jars.packages")


def spark_command(
    application: str,
    *,
    master: str,
    name: str,
    conf: Mapping[str, str],
    application_args: Sequence[str] = (),
    python: str = "",
) -> list[str]:
    """Spark-submit and its arguments for a job file, without Airflow. Nothing secret is in it.

    Args:
        application: path of the job file.
        master: such as ``local[4]``; the driver runs here.
        name: of the Spark application.
        conf: Spark settings; they win over the defaults of `spark_settings`.
        application_args: arguments of the job file.
        python: the job's own interpreter, beside which spark-submit is looked for first; empty for this one.

    Raises:
        ConfigurationError: spark-submit is not found, or a setting is a secret.
        JarsError: the Kafka connector's jars could not be resolved.
    """
    settings = spark_settings(conf)
    command = [find_binary("spark-submit", python), "--master", master]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    if jars := connector_jars(conf):
        command += ["--jars", ",".join(map(str, jars))]
    return [*command, "--name", name, "--deploy-mode", "client", application, *application_args]


def spark_settings(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings of an instance: what the user gives, and the defaults for the rest.

    Args:
        conf: what the user gives.

    Raises:
        ConfigurationError: one of them is a secret, which would be shown on the command line, and in the topic that
            says how to deploy again.
    """
    found = sorted(name for name in conf if _SECRET.search(name))
    if found:
        raise ConfigurationError(
            f"Spark's {', '.join(found)} would be read by everybody who sees the processes of the host, or the "
            "application's topics: put it into spark-defaults.conf instead, in the folder that SPARK_CONF_DIR names in "
            "the instance's environment, readable for its user alone."
        )
    return {**_DEFAULTS, **conf}


def connector_jars(conf: Mapping[str, str]) -> tuple[Path, ...]:
    """The jars of the Kafka connector; none where the settings name jars of their own.

    They come from the user's cache; where it lacks them they are resolved once, from the mirror that
    ``spark.jars.ivySettings`` names, or else from Maven Central (docs/adr/0007).

    Args:
        conf: Spark settings.

    Raises:
        JarsError: they could not be resolved.
    """
    if any(conf.get(key) for key in _JARS):
        return ()
    from airflow_provider.jars.jar_sets import spark_kafka_jars

    named = conf.get("spark.jars.ivySettings")
    return tuple(spark_kafka_jars(settings_file=Path(named.removeprefix("file://")) if named else None))


def find_binary(binary: str, python: str = "") -> str:
    """The path of spark-submit.

    Args:
        binary: as it was named.
        python: the job's own interpreter, beside which it has to be; empty for PATH, then beside this one.

    Raises:
        ConfigurationError: it is neither on PATH nor beside this Python, or not beside the job's own.
    """
    if python:
        own = shutil.which(binary, path=str(Path(python).parent))
        if own is None:
            raise ConfigurationError(f"{binary!r} is not beside {python}: install pyspark there.")
        return own
    # pip puts it beside the interpreter, which a scheduler's PATH need not hold.
    found = shutil.which(binary) or shutil.which(binary, path=str(Path(sys.executable).parent))
    if found is None:
        raise ConfigurationError(
            f"{binary!r} is neither on PATH nor beside {sys.executable}: install pyspark there, or set "
            "'spark-binary' on the Spark connection."
        )
    return found


def interpreters(conf: Mapping[str, str], python: str = "") -> dict[str, str]:
    """The driver's and the workers' Python as environment variables, unless the settings name another.

    Args:
        conf: Spark settings.
        python: the job's own interpreter; empty for this one.
    """
    names = {"PYSPARK_DRIVER_PYTHON": "spark.pyspark.driver.python", "PYSPARK_PYTHON": "spark.pyspark.python"}
    return {variable: python or sys.executable for variable, key in names.items() if key not in conf}
