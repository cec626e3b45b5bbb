"""Which options of Spark's Kafka source a job may set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from airflow_provider.errors import ConfigurationError

_OF_THE_CONNECTION: Final = "it comes from the connection to the cluster: set it there"
_OF_THE_TASKS: Final = "each task reads its own partition from where it stopped"
_OF_THE_RECORDS: Final = "the results would not be exactly once"

_TAKEN: Final = {
    "kafka.bootstrap.servers": _OF_THE_CONNECTION,
    "kafka.isolation.level": _OF_THE_RECORDS,
    "assign": _OF_THE_TASKS,
    "subscribe": _OF_THE_TASKS,
    "subscribepattern": _OF_THE_TASKS,
    "startingoffsets": _OF_THE_TASKS,
    "startingoffsetsbytimestamp": _OF_THE_TASKS,
    "startingtimestamp": _OF_THE_TASKS,
    "endingoffsets": _OF_THE_TASKS,
    "endingtimestamp": _OF_THE_TASKS,
    "endingoffsetsbytimestamp": _OF_THE_TASKS,
    "failondataloss": "say on_data_loss() what becomes of input that was deleted",
    "includeheaders": "the job reads no headers",
    "maxoffsetspertrigger": "set it with options(max_offsets_per_trigger=...)",
}
"""By name in lower case, as Spark compares them: why it is the package's, or where it is set instead."""

_TAKEN_PREFIXES: Final = (
    "kafka.security.",
    "kafka.sasl.",
    "kafka.ssl.truststore.",
    "kafka.ssl.keystore.",
    "kafka.ssl.key.",
)
"""Of the options that `KafkaConnection.to_spark_options` gives."""


_OF_SPARK: Final = frozenset(
    {
        "minpartitions", "maxrecordsperpartition", "minoffsetspertrigger", "maxtriggerdelay", "groupidprefix",
        "fetchoffset.numretries", "fetchoffset.retryintervalms", "kafkaconsumer.polltimeoutms",
        "startingoffsetsbytimestampstrategy",
    }
)  # fmt: skip
"""Options of Spark's Kafka source without the prefix of Kafka's own."""


def kafka_options(given: object) -> tuple[tuple[str, str], ...]:
    """The options of Spark's Kafka source that a job may set.

    Args:
        given: a dict of texts.

    Raises:
        ConfigurationError: it is no dict; one is set by the instance itself; or Spark's Kafka source knows none of that
            name.
    """
    where = "options() got kafka"
    if not isinstance(given, Mapping):
        raise ConfigurationError(f'{where}={given!r}: give a dict, such as {{"kafka.max.poll.records": "2000"}}.')
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, (str, int, float)):
            raise ConfigurationError(f"{where}={{{name!r}: {value!r}}}: give texts, by the option's name.")
        check_kafka_options([name])
        if not name.lower().startswith("kafka.") and name.lower() not in _OF_SPARK:
            raise ConfigurationError(
                f"{where} with {name!r}, which Spark's Kafka source does not know: options of Kafka's consumer begin "
                f"with 'kafka.', as in 'kafka.{name}'."
            )
    return tuple(given.items())


def check_kafka_options(names: Iterable[str]) -> None:
    """Refuse what the package sets itself.

    Args:
        names: of ``options(kafka=...)``.

    Raises:
        ConfigurationError: one of them cannot be set.
    """
    for name in names:
        lower = name.lower()
        why = _OF_THE_CONNECTION if lower.startswith(_TAKEN_PREFIXES) else _TAKEN.get(lower)
        if why is not None:
            raise ConfigurationError(f"options(kafka=...) got {name!r}, which cannot be set there: {why}.")
