"""Follows applications while somebody looks at them: a thread for each, which ends when nobody does any more."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from airflow_provider.common.clock import now_ms
from airflow_provider.control.outlook.losses import LATELY_MS, recent_losses
from airflow_provider.control.overview.application_state import ApplicationState
from airflow_provider.control.overview.records import known_history, known_metrics
from airflow_provider.control.overview.verdict import Step, step_of_error
from airflow_provider.control.overview.watches import HeartbeatWatch, WatcherWatch
from airflow_provider.control.records.history import HistoryRecord
from airflow_provider.control.records.metrics import MetricsRecord
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import StatefulStreamsError, TopicMissingError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.page.answers import card, details, timeline, trend, unknown_card
from airflow_provider.page.applications import Application
from airflow_provider.page.dead_letters import newest_dead_letters

log = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 1.0
_READ_EVERY_S: Final = 60.0
_TRY_AGAIN_S: Final = 5.0
_IDLE_S: Final = 60.0
_TREND_MS: Final = 3 * 3_600_000


@dataclass(frozen=True)
class Answers:
    """What is shown of an application, as JSON that is sent as it is."""

    card: bytes
    details: bytes
    timeline: bytes = b"[]"
    trend: bytes = b'{"points":[],"ahead":[]}'

    @classmethod
    def unknown(cls, application: Application, why: str, step: Step | None = None) -> Answers:
        """Where nothing could be read."""
        said = _json(unknown_card(application, why, step))
        return cls(said, said)


@dataclass(frozen=True)
class _Read:
    """What is read beside the control topics, once a minute and when an incident begins or ends."""

    history: Sequence[HistoryRecord] = ()
    metrics: Sequence[MetricsRecord] = ()
    dead_letters: Sequence[Mapping[str, Any]] = ()
    trend: bytes = b'{"points":[],"ahead":[]}'
    at: float = field(default_factory=time.monotonic)
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
        self._asked_at = time.monotonic()
        self._stopped = threading.Event()
        self._answers = Answers.unknown(application, "It is being read.")
        self._thread = threading.Thread(target=self._run, name=f"page-{application.id}", daemon=True)
        self._thread.start()

    @property
    def lives(self) -> bool:
        """Whether it follows, and goes on for some time."""
        return self._thread.is_alive() and not self._over

    def answers(self) -> Answers:
        """What was seen last."""
        self._asked_at = time.monotonic()
        return self._answers

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
                self._answers = Answers.unknown(self.application, why, Step.DEPLOY)
            except StatefulStreamsError as error:
                step = step_of_error(type(error).__name__)
                self._answers = Answers.unknown(self.application, str(error), step)
            except Exception as error:  # a thread that ended without a word would show what was so long ago
                log.exception("Following %s failed", self.application.id)
                why = f"The page could not read it ({type(error).__name__}): see the API server's log"
                self._answers = Answers.unknown(self.application, why)
            if not self._over:
                self._stopped.wait(_TRY_AGAIN_S)

    def _follow(self) -> None:
        application = self.application
        connection = self._connect(application.kafka_conn_id)
        with ControlReader(connection, application.id, follows=True) as reader:
            view = reader.read_to_end()
            heartbeats, watcher = HeartbeatWatch(application.timeouts), WatcherWatch()
            read = self._read(connection, view)
            while not self._over:
                now = time.monotonic()
                if now - read.at > _READ_EVERY_S or _incidents(view) != read.incidents:
                    read = self._read(connection, view, read)
                state = ApplicationState(
                    view,
                    heartbeats.silent(view, now),
                    watched=watcher.watched(view, now),
                    history=read.history,
                    losses=recent_losses(read.metrics, view.statuses, now_ms(), LATELY_MS),
                    num_standby_replicas=application.num_standby_replicas,
                )
                self._answers = answers_of(application, state, read.dead_letters, read.trend)
                # What it took is waited for as well, so that no number of applications takes all of the server.
                until = time.monotonic() + max(_LOOK_EVERY_S, 4 * (time.monotonic() - now))
                while (left_s := until - time.monotonic()) > 0 and not self._over:
                    reader.poll(min(left_s, 0.5))

    def _read(self, connection: KafkaConnection, view: ControlView, before: _Read | None = None) -> _Read:
        before = before or _Read()
        read = known_history(connection, self.application.id)
        history = before.history if read is None else read
        metrics = known_metrics(connection, self.application.id, _TREND_MS)
        return _Read(
            history,
            metrics,
            newest_dead_letters(connection, view.job),
            _json(trend(self.application, metrics, history, now_ms())),
            incidents=_incidents(view),
        )


def answers_of(
    application: Application, state: ApplicationState, dead_letters: Sequence[Mapping[str, Any]], of_trend: bytes
) -> Answers:
    """What is shown of one look."""
    return Answers(
        _json(card(application, state, state.history)),
        _json({**details(application, state, state.history), "dead_letters": dead_letters}),
        _json(timeline(application, state.view, state.history)),
        of_trend,
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

    def answers(self, application: Application) -> Answers:
        """What was seen of it last; begins to follow it where nobody asked for some time, or its DAGs changed."""
        if application.problem is not None:
            return Answers.unknown(application, application.problem)
        with self._lock:
            followed = self._by_id.get(application.id)
            if followed is None or not followed.lives or followed.application != application:
                if followed is not None:
                    followed.stop()
                self._by_id[application.id] = followed = FollowedApplication(application, self._connect)
        return followed.answers()

    def followed(self) -> list[str]:
        """The ids of those that are followed now."""
        with self._lock:
            return [id_ for id_, one in self._by_id.items() if one.lives]
