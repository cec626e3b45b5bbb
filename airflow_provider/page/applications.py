"""Which applications there are, by the tags of their DAGs, and what their DAGs say of them."""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider.control.outlook.slo import Slo
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.errors import ConfigurationError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.page import DRILL, KIND_TAG, LOOKUPS_BY, LOOKUPS_TAG, NOBODY, OPERATORS

_KNOWN_FOR_S: Final = 15.0


@dataclass(frozen=True, kw_only=True)
class Application:
    """One application, as its DAGs describe it.

    Args:
        dags: its DAGs' ids, by what stands behind the application's in them: ``deploy``, ``drill_crash``.
        paused: of those the ids that are paused although they answer and repair failures; no other application by that.
        lookups_by: who may look up what its stores hold, one of `LOOKUPS_BY`.
        problem: why its DAGs do not say what they should; None where they do.
    """

    id: str
    dags: Mapping[str, str]
    kafka_conn_id: str = KafkaStreamsHook.default_conn_name
    num_standby_replicas: int = 1
    timeouts: Timeouts = field(default_factory=Timeouts)
    slo: Slo = field(default_factory=Slo)
    paused: tuple[str, ...] = field(default=(), compare=False)
    lookups_by: str = OPERATORS
    problem: str | None = None


_ANSWERING: Final = ("failover", "repair")
"""The DAGs that have to run by themselves after a failure."""


def dags_by_application(tags: Iterable[tuple[str, str]]) -> dict[str, dict[str, str]]:
    """By application, and by what stands behind its id in theirs, the ids of its DAGs.

    Args:
        tags: of all DAGs, each with the id of its DAG.
    """
    of_dag: defaultdict[str, set[str]] = defaultdict(set)
    for dag_id, tag in tags:
        of_dag[dag_id].add(tag)
    found: dict[str, dict[str, str]] = {}
    for dag_id, all_tags in sorted(of_dag.items()):
        kinds = [tag.removeprefix(KIND_TAG) for tag in all_tags if tag.startswith(KIND_TAG)]
        for kind in kinds:
            # A tag of the team may be the beginning of the id, too: of several the longest.
            ids = [tag for tag in all_tags if (rest := dag_id.removeprefix(f"{tag}_")) != dag_id and _is(kind, rest)]
            if ids:
                application_id = max(ids, key=len)
                found.setdefault(application_id, {})[dag_id.removeprefix(f"{application_id}_")] = dag_id
    return found


def lookups_by(tags: Iterable[Collection[str]]) -> str:
    """Who may look up what the stores of an application hold, by the tags of each of its DAGs: the fewest.

    A DAG that says nothing says operators, so that none can open what the others leave closed.
    """
    said = (
        name
        for of_dag in tags
        for name in [tag.removeprefix(LOOKUPS_TAG) for tag in of_dag if tag.startswith(LOOKUPS_TAG)] or [OPERATORS]
    )
    return min((name if name in LOOKUPS_BY else NOBODY for name in said), key=LOOKUPS_BY.index, default=OPERATORS)


def _is(kind: str, name: str) -> bool:
    return name.startswith(f"{DRILL}_") if kind == DRILL else name == kind


def application_of(application_id: str, dags: Mapping[str, str], monitor: Mapping[str, Any] | None) -> Application:
    """An application as its monitor's tasks describe it.

    Args:
        monitor: of that DAG, what Airflow's database keeps; None where there is none.
    """
    tasks = [task["__var"] for task in (monitor or {}).get("dag", {}).get("tasks", ())]
    said: Mapping[str, Any] = next((task for task in tasks if "slo" in task), {})
    try:
        return Application(
            id=application_id,
            dags=dags,
            kafka_conn_id=str(said.get("kafka_conn_id", KafkaStreamsHook.default_conn_name)),
            num_standby_replicas=int(said.get("num_standby_replicas", 1)),
            timeouts=Timeouts(
                float(said.get("instance_timeout_s", Timeouts.instance_s)),
                float(said.get("start_timeout_s", Timeouts.start_s)),
            ),
            slo=Slo.parse(said.get("slo") or {}),
        )
    except (ConfigurationError, TypeError, ValueError) as error:
        problem = f"The DAG {dags.get('monitor')} does not say what the page needs: {error}"
        return Application(id=application_id, dags=dags, problem=problem)


class KnownApplications:
    """All applications, read from Airflow's database at most every 15 seconds. Used by several threads."""

    def __init__(self, read: Callable[[], dict[str, Application]], clock: Callable[[], float] = time.monotonic) -> None:
        self._read, self._clock = read, clock
        self._known: tuple[float, dict[str, Application]] | None = None

    def get(self) -> dict[str, Application]:
        """By id, in their order."""
        known, now = self._known, self._clock()
        if known is None or now - known[0] > _KNOWN_FOR_S:
            self._known = known = (now, self._read())
        return known[1]


def read_applications() -> dict[str, Application]:
    """As Airflow's database has them, without DAGs whose file is gone."""
    from airflow.models.dag import DagModel, DagTag
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        tagged = select(DagTag.dag_id).where(DagTag.name.startswith(KIND_TAG))
        present = select(DagModel.dag_id).where(DagModel.is_stale.is_(False))
        rows = session.execute(
            select(DagTag.dag_id, DagTag.name).where(DagTag.dag_id.in_(tagged), DagTag.dag_id.in_(present))
        )
        tags = [(str(dag_id), str(tag)) for dag_id, tag in rows]
        paused = set(session.scalars(present.where(DagModel.is_paused.is_(True))))
        found = dags_by_application(tags)
        monitors = [dags["monitor"] for dags in found.values() if "monitor" in dags]
        kept = SerializedDagModel.get_latest_serialized_dags(dag_ids=monitors, session=session) if monitors else ()
        data = {row.dag_id: row.data for row in kept}
    return {
        id_: dataclasses.replace(
            application_of(id_, dags, data.get(dags.get("monitor", ""))),
            paused=tuple(dags[name] for name in _ANSWERING if dags.get(name) in paused),
            lookups_by=lookups_by([tag for of, tag in tags if of == dag_id] for dag_id in dags.values()),
        )
        for id_, dags in sorted(found.items())
    }
