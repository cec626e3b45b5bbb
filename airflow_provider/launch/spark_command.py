"""The spark-submit command of an instance: what is the same for every way to start it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from airflow_provider.errors import ConfigurationError

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

_MASTER: Final = re.compile(
    r"local(\[([1-9]\d*|\*)(\s*,\s*\d+)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|spark://[^\s,/]+:\d+(,[^\s,/]+:\d+)*|k8s://\S+|yarn"
)
_OF_YARN: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")

_DRIVER: Final = ("PYSPARK_DRIVER_PYTHON", "spark.pyspark.driver.python")
_WORKERS: Final = ("PYSPARK_PYTHON", "spark.pyspark.python")
"""Of an interpreter, the environment variable and the setting of Spark, which wins."""

_JARS: Final = ("spark.jars", "spark.jars.packages")


def spark_command(
    application: str,
    *,
    master: str,
    name: str,
    conf: Mapping[str, str],
    environment: Mapping[str, str],
    application_args: Sequence[str] = (),
    python: str = "",
) -> list[str]:
    """Spark-submit and its arguments for a job file, without Airflow. Nothing secret is in it.

    Args:
        master: such as ``local[4]``; the driver runs here.
        conf: Spark settings; they win over the defaults of `spark_settings`.
        environment: what is added to this process's for the command, `interpreters` among it.
        python: the job's own interpreter, beside which spark-submit is looked for first; empty for this one.

    Raises:
        ConfigurationError: spark-submit is not found, a setting is a secret, or the master is none (`check_master`).
        JarsError: the Kafka connector's jars could not be resolved.
    """
    settings = spark_settings(conf, environment)
    command = [find_binary("spark-submit", python), "--master", master]
    check_master(master, os.environ | environment, command[0])
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    if jars := connector_jars(conf):
        command += ["--jars", ",".join(map(str, jars))]
    return [*command, "--name", name, "--deploy-mode", "client", application, *application_args]


def check_master(master: str, environment: Mapping[str, str], binary: str) -> None:
    """Refuse a master that spark-submit would not know, or could not find: its own word for it is only in the log.

    Raises:
        ConfigurationError: it is none of Spark's, or it is YARN and nothing says where that is.
    """
    if _MASTER.fullmatch(master) is None:
        raise ConfigurationError(
            f"{master!r} is no master of Spark: name 'local[4]', 'local[*]', 'spark://host:7077' (of several: "
            "'spark://a:7077,b:7077'), 'yarn' or 'k8s://https://host:443', with --master or as the host of the Spark "
            "connection."
        )
    home = environment.get("SPARK_HOME") or Path(binary).resolve().parent.parent
    # It is run before spark-submit looks, and may set either.
    spark_env = Path(environment.get("SPARK_CONF_DIR") or Path(home, "conf"), "spark-env.sh")
    if master == "yarn" and not any(environment.get(name) for name in _OF_YARN) and not spark_env.exists():
        raise ConfigurationError(
            f"The master is YARN, but neither {' nor '.join(_OF_YARN)} is set: name the folder with the cluster's "
            "yarn-site.xml in the instance's environment (env_vars, --env)."
        )


def spark_settings(conf: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of an instance: what the user gives, and the defaults for the rest.

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
    # The workers' Python would be the driver's too: Spark puts that setting before the driver's variable.
    variable, setting = _DRIVER
    driver = {setting: environment[variable]} if _WORKERS[1] in conf and variable in environment else {}
    return {**_DEFAULTS, **driver, **conf}


def connector_jars(conf: Mapping[str, str]) -> tuple[Path, ...]:
    """The jars of the Kafka connector; none where the settings name jars of their own.

    They come from the user's cache; where it lacks them they are resolved once, from the mirror that
    ``spark.jars.ivySettings`` names, or else from Maven Central (docs/adr/0007).

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
    """The driver's and the workers' Python as environment variables, unless the settings name another."""
    return {variable: python or sys.executable for variable, key in (_DRIVER, _WORKERS) if key not in conf}
