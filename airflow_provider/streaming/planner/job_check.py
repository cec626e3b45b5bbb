"""Whether a job can be run, before Spark starts: its topics, the columns of a union, the options of Spark's source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import assignment_topic, history_topic, lookups_topic, metrics_topic, status_topic
from airflow_provider.state.kind import StoreKind
from airflow_provider.streaming.language.column_check import columns_after
from airflow_provider.streaming.planner.stage_plan import StagePlan, changelog_of


def check_sinks(application_id: str, topics: Sequence[str]) -> None:
    """Refuse two sinks of one topic, before what follows from it: that their stores would have one name, too."""
    for at, topic in enumerate(topics):
        if topic in topics[:at]:
            raise ConfigurationError(
                f"Two sinks of job {application_id!r} name the same topic {topic!r}: readers could not tell the "
                "records of one branch from those of the other. Name two topics."
            )


def check_topics(
    application_id: str,
    stages: Sequence[StagePlan],
    sinks: Sequence[str],
    dead_letter: str | None,
) -> None:
    """Refuse a job that would read what it writes, or write two kinds of records into one topic."""
    sources = dict.fromkeys(stage.source_topic for stage in stages if not stage.internal)
    named = [
        *(("stream()", topic) for topic in sources),
        *(("sink()", topic) for topic in sinks),
        ("on_error()", dead_letter),
    ]
    own = _own(application_id, stages)
    for method, topic in named:
        if topic in own:
            raise ConfigurationError(
                f"{method} of job {application_id!r} names the topic {topic!r}, which is {own[topic]}: only the "
                "application itself may write there. Name another topic."
            )
    seen = dict[str, str]()
    for method, topic in named:
        if topic is None:
            continue
        if topic in seen:
            raise ConfigurationError(_same(application_id, seen[topic], method, topic))
        seen[topic] = method


def _own(application_id: str, stages: Sequence[StagePlan]) -> dict[str, str]:
    """The topics that the application keeps for itself, each with what it is."""
    own = {
        assignment_topic(application_id): "its assignment topic",
        status_topic(application_id): "its status topic",
        history_topic(application_id): "its history",
        metrics_topic(application_id): "its metrics topic",
        lookups_topic(application_id): "its lookups topic",
    }
    for stage in stages:
        commits = f"the commits topic of its stage {stage.number}"
        what = commits if stage.store is None else f"the changelog of its store {stage.store!r}"
        own[changelog_of(application_id, stage)] = what
        if stage.internal:
            own[stage.source_topic] = f"the internal topic of its stage {stage.number}"
    return own


def _same(application_id: str, one: str, other: str, topic: str) -> str:
    why = (
        "readers of the output could not tell it from the records that were left out"
        if one == "sink()"
        else "the job would read again what it writes, without end"
    )
    return f"{one} and {other} of job {application_id!r} name the same topic {topic!r}: {why}. Name two topics."


def kinds_of(given: object) -> dict[str, StoreKind]:
    """By store, what a job was told that keeps it."""
    if not isinstance(given, Mapping):
        raise ConfigurationError(f'options() got stores={given!r}: give a dict, such as {{"counts": InMemory()}}.')
    return {str(name): StoreKind.of(f"options() got stores= with {name!r}: ", kind) for name, kind in given.items()}


def check_store_kinds(
    application_id: str, stages: Sequence[StagePlan], kinds: Mapping[str, StoreKind], copied: Sequence[str]
) -> None:
    """Refuse a kind for a store that is not there, and snapshots of one that is not in RocksDB.

    Args:
        copied: the stores of which snapshots are taken.
    """
    stores = [stage.store for stage in stages if stage.store is not None]
    for where, names in (("options() got stores=", kinds), ("snapshots() got stores=", copied)):
        for name in names:
            if name not in stores:
                there = ", ".join(map(repr, stores)) or "none"
                raise ConfigurationError(f"{where}{name!r}, and job {application_id!r} has the stores {there}.")
    for name in copied:
        kind = kinds.get(name)
        if kind is not None and not kind.of_rocksdb:
            raise ConfigurationError(
                f"snapshots() of job {application_id!r} copies the files of RocksDB, and the store {name!r} is kept by "
                f"{kind.name}: its changelog alone restores it. Leave it out with snapshots(..., stores=[...])."
            )


def check_union(
    first: str, first_types: Mapping[str, str | None], other: str, other_types: Mapping[str, str | None]
) -> None:
    """Refuse two streams that come together in an internal topic with a column of two types.

    A record says nothing of its columns' types: what is behind the topic takes those of the first stream for all.

    Args:
        first_types: the types of what it writes, the key's among them, in the words of a schema; None for one that is
            not known.
    """
    for name, kind in first_types.items():
        now = other_types[name]
        if kind is not None and now is not None and kind != now:
            raise ConfigurationError(
                f"union() of the streams of {first!r} and {other!r}: the column {name!r} is {kind} in the first, and "
                f"{now} in the other: cast one of them with with_column()."
            )


def check_unions(stages: Sequence[StagePlan]) -> None:
    """Refuse what is seen without Spark, where the job is written: columns of plain types that no step computes.

    The others `compile_job` compares.
    """
    first = dict[tuple[str | None, int | None], StagePlan]()
    for stage in stages:
        if stage.feeds and not stage.internal:
            one = first.setdefault((stage.output_topic, stage.operation.side_written), stage)
            check_union(one.source_topic, _types(one), stage.source_topic, _types(stage))


def _types(stage: StagePlan) -> dict[str, str | None]:
    columns = columns_after(stage.schema, stage.steps) or {}
    # Two texts with parameters may be one type, such as DECIMAL(10,2) and DECIMAL(10, 2).
    plain = {name.lower(): kind.text for name, kind in columns.items() if kind is not None and kind.text == kind.name}
    return {name: plain.get(name.lower()) for name in (stage.key, *stage.operation.columns)}


_OF_THE_CONNECTION: Final = "it comes from the connection to the cluster: set it there"

_TAKEN: Final = {
    "kafka.bootstrap.servers": _OF_THE_CONNECTION,
    "kafka.isolation.level": "the results would not be exactly once",
    **dict.fromkeys(
        (
            *("assign", "subscribe", "subscribepattern", "startingoffsets", "startingoffsetsbytimestamp"),
            *("startingtimestamp", "endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"),
        ),
        "each task reads its own partition from where it stopped",
    ),
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
    """The options of Spark's Kafka source that a job may set."""
    where = "options() got kafka"
    if not isinstance(given, Mapping):
        raise ConfigurationError(f'{where}={given!r}: give a dict, such as {{"kafka.max.poll.records": "2000"}}.')
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, (str, int, float)):
            raise ConfigurationError(f"{where}={{{name!r}: {value!r}}}: give texts, by the option's name.")
        lower = name.lower()
        why = _OF_THE_CONNECTION if lower.startswith(_TAKEN_PREFIXES) else _TAKEN.get(lower)
        if why is not None:
            raise ConfigurationError(f"options(kafka=...) got {name!r}, which cannot be set there: {why}.")
        if not lower.startswith("kafka.") and lower not in _OF_SPARK:
            raise ConfigurationError(
                f"{where} with {name!r}, which Spark's Kafka source does not know: options of Kafka's consumer begin "
                f"with 'kafka.', as in 'kafka.{name}'."
            )
    return tuple(given.items())
