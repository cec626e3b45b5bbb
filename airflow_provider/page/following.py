"""Follows applications while somebody looks at them: a thread for each, which ends when nobody does any more."""

from __future__ import annotations

import dataclasses
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from airflow_provider.common.clock import now_ms
from airflow_provider.control.outlook.losses import LATELY_MS, recent_losses
from airflow_provider.control.overview.application_state import ApplicationState
from airflow_provider.control.overview.records import METRICS_MS, known_history, known_metrics
from airflow_provider.control.overview.verdict import Step, Word, step_of_error
from airflow_provider.control.overview.watches import HeartbeatWatch, WatcherWatch
from airflow_provider.control.records.history import HistoryRecord
from airflow_provider.control.records.job_description import JobDescription
from airflow_provider.control.records.metrics import MetricsRecord
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import BrokerUnreachableError, StatefulStreamsError, TopicMissingError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.page.answers import card, details, not_safe_since_ms, timeline, trend, unknown_card
from airflow_provider.page.applications import Application
from airflow_provider.page.dead_letters import newest_dead_letters
from airflow_provider.page.topic_findings import known_topic_findings

log = logging.getLogger(__name__)

_ONE_AT_A_TIME: Final = threading.Lock()
"""A request then competes with one look for the interpreter, however many applications are followed."""

_LOOK_EVERY_S: Final = 1.0
_LOOK_AT_CARD_EVERY_S: Final = 2.0
_DETAILS_S: Final = 10.0
_READ_EVERY_S: Final = 60.0
_HISTORY_EVERY_S: Final = 10.0
_TOPICS_EVERY_S: Final = 300.0
"""Each topic is described: some requests each time."""
_TRY_AGAIN_S: Final = 5.0
_IDLE_S: Final = 60.0
_CLOSE_S: Final = 2.0
_CONFIRM_S: Final = 2.0
_OLD_S: Final = 20.0
"""What was seen before is not shown any more: a broker that does not answer is waited for, topic by topic."""
_BEING_READ: Final = "It is being read."
_TREND_MS: Final = 3 * 3_600_000


@dataclass(frozen=True)
class Answers:
    """What is shown of an application, as JSON that is sent as it is.

    Args:
        details: no more than the card while nobody looks at the application itself.
    """

    card: bytes
    details: bytes
    timeline: bytes = b"[]"
    trend: bytes = b'{"points":[],"ahead":[]}'

    @classmethod
    def unknown(
        cls,
        application: Application,
        why: str,
        step: Step | None = None,
        *,
        before: Answers | None = None,
        since_ms: int | None = None,
    ) -> Answers:
        """Where nothing could be read.

        Args:
            before: what was known last, which is shown below that.
            since_ms: what was heard last.
        """
        said = unknown_card(application, why, step, since_ms)
        if before is None:
            return cls(_json(said), _json(said))
        details = msgspec.json.decode(before.details) | said
        return dataclasses.replace(before, card=_json(said), details=_json(details))


@dataclass(frozen=True)
class Read:
    """What is read beside the control topics, once a minute and when an incident begins or ends; history more often."""

    history: Sequence[HistoryRecord] = ()
    metrics: Sequence[MetricsRecord] = ()
    dead_letters: Sequence[Mapping[str, Any]] = ()
    topics: Mapping[str, Any] | None = None
    topics_at: float = -math.inf
    topics_of: JobDescription | None = None
    trend: bytes = b'{"points":[],"ahead":[]}'
    closely: bool = False
    at: float = field(default_factory=time.monotonic)
    history_at: float = field(default_factory=time.monotonic)
    incidents: frozenset[tuple[str, bool]] = frozenset()


class FollowedApplication:
    """One application. `answers` is never waited for: all is read and decided in the follower's own thread.

    Args:
        connect: gives the Kafka cluster; asked in that thread, again after each failure.
        idle_s: ends when it was not asked for so long.
    """

    def __init__(
        self, application: Application, connect: Callable[[str], KafkaConnection], idle_s: float = _IDLE_S
    ) -> None:
        self.application = application
        self._connect, self._idle_s = connect, idle_s
        self._asked_at, self._details_asked_at = time.monotonic(), -math.inf
        self._stopped = threading.Event()
        self._publish(Answers.unknown(application, _BEING_READ))
        self._thread = threading.Thread(target=self._run, name=f"page-{application.id}", daemon=True)
        self._thread.start()

    @property
    def lives(self) -> bool:
        """Whether it follows, and goes on for some time."""
        return self._thread.is_alive() and not self._over

    def answers(self, *, closely: bool = False) -> Answers:
        """What was seen last.

        Args:
            closely: whether more than the card is wanted: it is there with the next look, and for some seconds.
        """
        self._asked_at = time.monotonic()
        if closely:
            self._details_asked_at = self._asked_at
        if self.lives and self._asked_at - self._published_at > _OLD_S:
            why = f"Nothing new was read of it for {_OLD_S:.0f} s"
            return Answers.unknown(self.application, why, Step.BROKERS, before=self._answers)
        return self._answers

    def _publish(self, answers: Answers) -> None:
        self._answers, self._published_at = answers, time.monotonic()

    def _publish_unknown(self, error: StatefulStreamsError, since_ms: int | None = None) -> None:
        step = step_of_error(type(error).__name__)
        self._publish(Answers.unknown(self.application, str(error), step, before=self._answers, since_ms=since_ms))

    def stop(self) -> None:
        """End it soon."""
        self._stopped.set()

    def join(self, timeout_s: float) -> None:
        """Wait for its end."""
        self._thread.join(timeout_s)

    @property
    def _over(self) -> bool:
        return self._stopped.is_set() or time.monotonic() - self._asked_at > self._idle_s

    def _run(self) -> None:
        while not self._over:
            try:
                self._follow()
            except TopicMissingError as error:
                why = f"It was not deployed yet, or its topics are gone: {error}"
                self._publish(Answers.unknown(self.application, why, Step.DEPLOY))
            except StatefulStreamsError as error:
                self._publish_unknown(error)
            except Exception as error:  # a thread that ended without a word would show what was so long ago
                log.exception("Following %s failed", self.application.id)
                why = f"The page could not read it ({type(error).__name__}): see the API server's log"
                self._publish(Answers.unknown(self.application, why))
            if not self._over:
                self._stopped.wait(_TRY_AGAIN_S)

    def _follow(self) -> None:
        application = self.application
        connection = self._connect(application.kafka_conn_id)
        with ControlReader(connection, application.id, follows=True) as reader:
            view = reader.read_to_end()
            heartbeats, watcher = HeartbeatWatch(application.timeouts), WatcherWatch()
            read, since_ms, safe_at_ms = self._read(connection, view), None, None
            while not self._over and not heartbeats.known(view, time.monotonic()):  # what was said may be long ago
                self._publish(Answers.unknown(application, _BEING_READ, before=self._answers))
                reader.poll(0.5)
            while not self._over:
                now = time.monotonic()
                more = self._closely and (not read.closely or view.job != read.topics_of)
                due = now - read.at > _READ_EVERY_S or more
                if due or _incidents(view) != read.incidents:
                    read = self._read(connection, view, read)
                elif self._closely and now - read.history_at > _HISTORY_EVERY_S:
                    read = self._with_history(connection, read)
                silent = heartbeats.silent(view, now)
                if silent:  # where no broker answers, that says nothing of an instance
                    try:
                        reader.read_to_end(_CONFIRM_S)
                    except BrokerUnreachableError as error:
                        self._publish_unknown(error, view.newest_ms)
                        reader.poll(0.5)
                        continue
                    silent = heartbeats.silent(view, time.monotonic())
                state = ApplicationState(
                    view,
                    silent,
                    watched=watcher.watched(view, now),
                    history=read.history,
                    losses=recent_losses(read.metrics, view.statuses, now_ms(), LATELY_MS),
                    num_standby_replicas=application.num_standby_replicas,
                    paused_dags=self.application.paused,
                )
                with _ONE_AT_A_TIME:
                    since_ms = not_safe_since_ms(state, since_ms, safe_at_ms)
                    safe_at_ms = now_ms() if state.verdict.word is Word.SAFE else safe_at_ms
                    self._publish(answers_of(application, state, read, since_ms, closely=self._closely))
                while (left_s := now + self._look_every_s - time.monotonic()) > 0 and not self._over:
                    reader.poll(min(left_s, 0.5))

    @property
    def _closely(self) -> bool:
        return time.monotonic() - self._details_asked_at < _DETAILS_S

    @property
    def _look_every_s(self) -> float:
        return _LOOK_EVERY_S if self._closely else _LOOK_AT_CARD_EVERY_S

    def _read(self, connection: KafkaConnection, view: ControlView, before: Read | None = None) -> Read:
        before = self._with_history(connection, before or Read())
        closely = self._closely  # hours of figures are much to read for a card
        found = known_metrics(connection, self.application.id, _TREND_MS if closely else METRICS_MS)
        metrics = before.metrics if found is None else found
        if not closely:
            return dataclasses.replace(
                before,
                metrics=metrics,
                closely=False,
                at=time.monotonic(),
                incidents=_incidents(view),
            )
        topics, topics_at = before.topics, before.topics_at
        if time.monotonic() - topics_at > _TOPICS_EVERY_S or view.job != before.topics_of:
            topics, topics_at = known_topic_findings(connection, view), time.monotonic()
        return Read(
            before.history,
            metrics,
            newest_dead_letters(connection, view.job),
            topics,
            topics_at,
            view.job,
            _json(trend(self.application, view.job, metrics, before.history, now_ms())),
            closely=True,
            incidents=_incidents(view),
        )

    def _with_history(self, connection: KafkaConnection, before: Read) -> Read:
        history = known_history(connection, self.application.id)
        return dataclasses.replace(
            before, history=before.history if history is None else history, history_at=time.monotonic()
        )


def answers_of(
    application: Application,
    state: ApplicationState,
    read: Read,
    since_ms: int | None = None,
    *,
    closely: bool,
) -> Answers:
    """What is shown of one look."""
    glance = card(application, state, state.history, since_ms)
    if not closely:
        return Answers(_json(glance), _json(glance), trend=read.trend)
    return Answers(
        _json(glance),
        _json({**glance, **details(state), "dead_letters": read.dead_letters, "topics": read.topics}),
        _json(timeline(application, state.view, state.history)),
        read.trend,
    )


def _incidents(view: ControlView) -> frozenset[tuple[str, bool]]:
    return frozenset((id_, record.resolved_at_ms is None) for id_, record in view.incidents.items())


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)


class Followers:
    """Those of one process of the API server."""

    def __init__(self, connect: Callable[[str], KafkaConnection]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._by_id: dict[str, FollowedApplication] = {}

    def answers(self, application: Application, *, closely: bool = False) -> Answers:
        """What was seen of it last; begins to follow it where nobody asked for some time, or its DAGs changed."""
        if application.problem is not None:
            return Answers.unknown(application, application.problem)
        with self._lock:
            followed = self._by_id.get(application.id)
            if followed is None or not followed.lives or followed.application != application:
                if followed is not None:
                    followed.stop()
                self._by_id = {id_: one for id_, one in self._by_id.items() if one.lives}  # what was deleted ends too
                self._by_id[application.id] = followed = FollowedApplication(application, self._connect)
            followed.application = application  # what does not make it another one may differ
        return followed.answers(closely=closely)

    def followed(self) -> list[str]:
        """The ids of those that are followed now."""
        with self._lock:
            return [id_ for id_, one in self._by_id.items() if one.lives]

    def close(self) -> None:
        """End all of them, and wait for that some seconds."""
        with self._lock:
            ended, self._by_id = list(self._by_id.values()), {}
        for one in ended:
            one.stop()
        for one in ended:
            one.join(_CLOSE_S)
