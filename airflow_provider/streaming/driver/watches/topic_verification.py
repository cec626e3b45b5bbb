"""Whether the topics of an instance are what its job needs, before it processes anything and as long as it runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from airflow_provider.common.in_thread import Background
from airflow_provider.errors import (
    AccessError,
    BrokerUnreachableError,
    ConfigurationError,
    TopicError,
    TopicMismatchError,
    TopicMissingError,
)
from airflow_provider.kafka.application_topics import check_partitions, missing_source, source_spec
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_findings import config_command
from airflow_provider.kafka.topic_spec import TopicSpec, control_specs
from airflow_provider.streaming.planner.compile import TopicFacts
from airflow_provider.streaming.planner.job import StatefulJob
from airflow_provider.streaming.planner.stage_plan import (
    StagePlan,
    changelog_of,
    internal_specs,
    partitions_read,
    source_topics,
)

log = logging.getLogger(__name__)

_AGAIN_S = 5.0
_SECOND_LOOK_S: Final = 2.0


class TopicWatch(Background):
    """Verifies topics at the start and then again and again, in a thread of its own.

    What refuses a start must end a run: a changelog that is not compacted any more loses state with the next restore,
    and partitions that were added to a source are not read. What only keeps it from looking does not: the right may be
    given back.

    Args:
        changelogs: names of those among the topics whose deletions the stores rely on: they are to be kept for as long
            as when the watch was made, or longer.

    Raises:
        TopicError: (on making it) a topic is not as it has to be.
        BrokerUnreachableError: (on making it) no broker answered.
    """

    def __init__(
        self, admin: TopicAdmin, specs: Sequence[TopicSpec], interval_s: float, changelogs: Collection[str] = ()
    ) -> None:
        super().__init__("topics")
        self._admin = admin
        self._specs = tuple(specs)
        self._interval_s = interval_s
        self._changelogs = tuple(changelogs)
        self.found = self._admin.verify(self._specs)
        """By topic, what it was when the watch was made."""
        self.ids = self._read_ids()
        """By topic, its id when the watch was made."""
        self._error: TopicError | ConfigurationError | None = None

    def check(self) -> None:
        """Raise what was found.

        Raises:
            AccessError: the right to look at one was taken away; until it is given back.
        """
        if self._error is not None:
            raise self._error

    def run(self) -> None:
        pause_s, doubt = self._interval_s, False
        while not self.stopped.wait(pause_s):
            try:
                self._look()
            except AccessError as error:
                if not isinstance(self._error, AccessError):
                    log.warning("the topics cannot be verified, next try in %g s: %s", _AGAIN_S, error)
                self._error, pause_s, doubt = error, min(_AGAIN_S, self._interval_s), False
            except (TopicError, ConfigurationError) as error:
                # A broker that has just started may not know everything yet: only what is found twice is true.
                if doubt:
                    self._error = error
                    return
                log.warning("the topics cannot be verified, next try in %g s: %s", _AGAIN_S, error)
                pause_s, doubt = min(_AGAIN_S, self._interval_s), True
            except BrokerUnreachableError:
                pause_s, doubt = self._interval_s, False
            except Exception as error:
                # What nobody foresaw says nothing of the topics, and must not end the watch over them.
                log.warning("the topics cannot be verified, next try in %g s: %r", self._interval_s, error)
                pause_s, doubt = self._interval_s, False
            else:
                self._error, pause_s, doubt = None, self._interval_s, False

    def _look(self) -> None:
        found = self._admin.verify(self._specs)
        ids = self._read_ids()
        for name, before in self.ids.items():
            if ids[name] != before:
                raise TopicMismatchError(
                    f"Topic {name!r} was deleted and created again while it was in use (its id was {before}, is "
                    f"{ids[name]}): its records are gone. Find out who did it. If it is a changelog, the stores of "
                    "this instance still hold what they were applied to, and are all that is left: see 'Changelog "
                    "missing or mismatched' in the runbook."
                )

        for name in self._changelogs:
            was_ms, is_ms = self.found[name].delete_retention_ms, found[name].delete_retention_ms
            if is_ms < was_ms:
                raise TopicMismatchError(
                    f"Topic {name!r} has delete.retention.ms={is_ms}, and had {was_ms} when this instance started: a "
                    "store that stands still for longer would miss a deletion, and bring the key back. Deploy the "
                    "instance again, so that it reads the new value, or set the old one with "
                    f"{config_command(name, 'delete.retention.ms', str(was_ms))}."
                )

    def _read_ids(self) -> Mapping[str, str]:
        return self._admin.ids([spec.name for spec in self._specs])


def verify_topics(job: StatefulJob, admin: TopicAdmin, interval_s: float) -> tuple[TopicFacts, TopicWatch]:
    """Refuse to start rather than run lossy.

    Returns:
        What the job's plan depends on, and a watch over the topics, not yet started.

    Raises:
        TopicError: a topic is missing, or is not as the job needs it.
        BrokerUnreachableError: no broker answered.
    """
    try:
        return _verified(job, admin, interval_s)
    except TopicMissingError:
        # A broker that has just started may not know every topic yet: only what is found twice is true.
        time.sleep(_SECOND_LOOK_S)
        return _verified(job, admin, interval_s)


def _verified(job: StatefulJob, admin: TopicAdmin, interval_s: float) -> tuple[TopicFacts, TopicWatch]:
    application_id, plans = job.application_id, job.stages
    of_sources = {topic: _partitions(application_id, plans, admin, topic) for topic in source_topics(plans)}
    partitions = partitions_read(plans, of_sources)
    sources = [source_spec(topic, number) for topic, number in of_sources.items()]
    internal = internal_specs(application_id, plans, of_sources)
    known = {spec.name for spec in internal}
    outputs = dict.fromkeys([*(topic for plan in plans for topic in plan.outputs), job.error_policy.topic])
    written = [
        TopicSpec(name=name, partitions=None, required=frozenset()) for name in outputs if name and name not in known
    ]
    changelogs = [changelog_of(application_id, plan) for plan in plans]
    specs = [*sources, *internal, *written, *control_specs(application_id)]
    watch = TopicWatch(admin, specs, interval_s, changelogs=changelogs)
    facts = TopicFacts(
        partitions=partitions,
        delete_retention_ms={name: watch.found[name].delete_retention_ms for name in changelogs},
        topic_ids=watch.ids,
        max_message_bytes={spec.name: watch.found[spec.name].max_message_bytes for spec in (*internal, *written)},
    )
    return facts, watch


def _partitions(application_id: str, plans: Sequence[StagePlan], admin: TopicAdmin, topic: str) -> int:
    """Of a source, which has to have as many as the changelogs of the stages that read it."""
    changelogs = [changelog_of(application_id, plan) for plan in plans if plan.source_topic == topic]
    kept = {name: found.partitions for name in changelogs if (found := admin.describe(name)) is not None}
    partitions = admin.partitions(topic, missing_source(next(iter(kept.values()), None)))
    check_partitions(topic, partitions, kept)
    return partitions
