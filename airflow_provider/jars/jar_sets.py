"""The jars that Spark needs to read Kafka, and those that a Kafka broker is made of.

`python -m airflow_provider.jars` resolves both into the user's cache, so that later runs need no network.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from airflow_provider.jars.ivy import Coordinate, resolve

KAFKA_VERSION = "4.3.1"
"""The version of the kit's broker."""

# The binding lets the broker's slf4j 1.7 write through the log4j 2 that comes along; without it logs are lost.
_BROKER = (
    Coordinate("org.apache.kafka", "kafka_2.13", KAFKA_VERSION, transitive=True),
    Coordinate("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)


def default_spark_coordinates(pyspark_version: str) -> tuple[str, ...]:
    """The Kafka connector of a pyspark and what it loads, each as `group:artifact:version`.

    The rest of the connector's dependencies (logging, compression) are in pyspark's own jars folder.
    """
    release = re.match(r"\d+\.\d+\.\d+", pyspark_version)
    return (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{release[0] if release else pyspark_version}",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
        # Delegation tokens only. Not every mirror has the later versions, and this one works with them.
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    )


def spark_kafka_jars(
    coordinates: Sequence[str] | None = None, *, cache: Path | None = None, settings_file: Path | None = None
) -> tuple[Path, ...]:
    """Return the jars to give to spark-submit's `--jars` for the Kafka source.

    Args:
        coordinates: `group:artifact:version` of each jar, taken as they are, without what they depend on. None
            follows the installed pyspark.
        cache: where resolved jars are kept; None is the user's cache.
        settings_file: Ivy settings in place of Maven Central, for a mirror.

    Raises:
        JarsError: a coordinate is malformed or cannot be resolved.
        JavaError: they are not in the cache yet and there is no Java to resolve them with.
    """
    names = default_spark_coordinates(version("pyspark")) if coordinates is None else coordinates
    return resolve([Coordinate.parse(name) for name in names], cache=cache, settings_file=settings_file)


def kafka_broker_jars(*, cache: Path | None = None, settings_file: Path | None = None) -> tuple[Path, ...]:
    """Return the class path of a Kafka broker of `KAFKA_VERSION`.

    Args:
        cache: where resolved jars are kept; None is the user's cache.
        settings_file: Ivy settings in place of Maven Central, for a mirror.

    Raises:
        JarsError: they cannot be resolved.
        JavaError: they are not in the cache yet and there is no Java to resolve them with.
    """
    return resolve(_BROKER, cache=cache, settings_file=settings_file)
