"""What the forms of the DAG files in ``dags/`` have in common. It lies in the package, so that copied DAGs find it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from airflow.sdk import Param

from airflow_provider.control.drill_fault import DRILLS, DrillKind
from airflow_provider.control.liveness import Timeouts
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.kafka.names import NAME_PATTERN

__all__ = [
    "APPLICATION",
    "NAME",
    "OPTIONAL_LIST",
    "STANDBYS",
    "TAG",
    "application_field",
    "blackout_field",
    "connection_field",
    "drill_kind_field",
    "instance_field",
    "seconds_field",
    "shared_sink_field",
    "standbys_field",
    "start_timeout_field",
    "warm_timeout_field",
]

TAG: Final = "stateful-streams"
"""Of every DAG of this package."""

NAME: Final = f"^{NAME_PATTERN}$"
"""Pattern of a field that names an application or an instance."""

APPLICATION: Final[dict[str, Any]] = {
    "application_id": "{{ params.application_id }}",
    "kafka_conn_id": "{{ params.kafka_conn_id }}",
}
"""An operator's arguments from the fields of `application_field` and `connection_field`."""

STANDBYS: Final[dict[str, Any]] = {"num_standby_replicas": "{{ params.num_standby_replicas }}"}
"""An operator's argument from the field of `standbys_field`."""

OPTIONAL_LIST: Final = ["null", "array"]
"""Type of a field with a line for each text: a browser sends null where a person has cleared it."""

_LIMITS: Final = "Limits"


def application_field(description: str, *, section: str) -> Param:
    """``application_id``, required."""
    return Param(
        "my-application",
        type="string",
        pattern=NAME,
        title="Application id",
        description=description,
        section=section,
    )


def connection_field(*, section: str) -> Param:
    """``kafka_conn_id``."""
    return Param(KafkaStreamsHook.default_conn_name, type="string", title="Kafka connection", section=section)


def blackout_field(blackout: Sequence[str] = (), *, section: str) -> Param:
    """``blackout``, a list of texts that may stay empty."""
    return Param(
        list(blackout),
        type=OPTIONAL_LIST,
        items={"type": "string"},
        title="Blackout",
        description="Times in which no drill begins, such as 'mon-fri 08:00-18:00 Europe/Vienna' or 'sat,sun'. In UTC "
        "where no time zone is named.",
        section=section,
    )


def drill_kind_field(*, section: str) -> Param:
    """``kind`` of a drill."""
    return Param(
        DrillKind.CRASH.value,
        enum=[kind.value for kind in DrillKind],
        values_display={kind.value: f"{kind.value}: {spec.does}" for kind, spec in DRILLS.items()},
        title="Kind",
        section=section,
    )


def instance_field(description: str, *, section: str) -> Param:
    """``instance``, which may stay empty."""
    return Param(None, type=["null", "string"], title="Instance", description=description, section=section)


def shared_sink_field(*, section: str) -> Param:
    """``shared_sink`` of a drill."""
    return Param(
        False,
        type="boolean",
        title="Shared sink",
        description="Whether other programs write into the job's sink or dead-letter topic, too. Then outputs are not "
        "counted.",
        section=section,
    )


def standbys_field(description: str | None = None, *, section: str) -> Param:
    """``num_standby_replicas``."""
    return Param(
        1, type="integer", minimum=0, maximum=10, title="Standbys a task", description=description, section=section
    )


def seconds_field(default: int, title: str, *, minimum: int = 10) -> Param:
    """A time limit in seconds, such as ``start_timeout_s``."""
    return Param(default, type="integer", minimum=minimum, title=title, description="Seconds.", section=_LIMITS)


def start_timeout_field() -> Param:
    """``start_timeout_s``: how long an instance may take to start."""
    return seconds_field(int(Timeouts.start_s), "Start within")


def warm_timeout_field() -> Param:
    """``warm_timeout_s``: how long the standbys may take to become warm."""
    return seconds_field(3600, "Warm within")
