"""Waiting for a condition of an application, and what is read for it besides the control topics."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Final

from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.history.topic import read_history
from airflow_provider.control.outlook.metrics_forecasts import ChangelogGrowth, changelog_growths
from airflow_provider.control.outlook.metrics_topic import read_metrics
from airflow_provider.control.records.history import HistoryRecord
from airflow_provider.control.topics.cursor import MISSING_S
from airflow_provider.control.topics.follower import ControlFollower
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.waiting.evaluation import Condition, Evaluation, Needs, Observation, Outcome, WaitResult
from airflow_provider.errors import BrokerUnreachableError, ConfigurationError, TopicMissingError
from airflow_provider.kafka.connection import KafkaConnection

_POLL_S: Final = 0.5
_PAUSE_S: Final = 1.0
_SAY_EVERY_S: Final = 2.0
_EVERY_S: Final = 20.0
_READ_S: Final = 10.0


class ConditionWait:
    """Follows the control topics of an application until a condition is met, cannot be met, or the time is over.

    It judges states, read from the beginning of compacted topics. So nothing is lost that happens before it starts.
    While the brokers are away it goes on waiting. Control topics that brokers do not know for 20 s do not exist: the
    application id is wrong, or its topics were never created, and waiting does not help. Neither does it where the
    connection lacks a right.

    Args:
        connect: gives the cluster, each time that the topics are followed anew.
        say: gets what is the case when that has changed, every two seconds at most.
    """

    def __init__(
        self,
        application_id: str,
        condition: Condition,
        connect: Callable[[], Awaitable[KafkaConnection]],
        *,
        timeouts: Callable[[], Timeouts] = Timeouts,
        give_up_at: float = math.inf,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._application_id = application_id
        self._condition = condition
        self._connect = connect
        self._timeouts = timeouts
        self._give_up_at = give_up_at
        self._say = say
        self._records = ConditionRecords(application_id, condition.needs())

    async def result(self) -> WaitResult:
        """Wait here, in whatever event loop this is."""
        last = judged = Evaluation(Outcome.WAITING, "nothing was read yet")
        missing = refused = None
        began, said_at, missing_since = time.monotonic(), 0.0, math.inf
        while not self._late():
            try:
                async for evaluation in self._evaluations():
                    if evaluation.seen != last.seen and time.monotonic() - said_at > _SAY_EVERY_S:
                        said_at = time.monotonic()
                        self._say(evaluation.seen)
                    last = judged = evaluation
                    missing = None
                    if evaluation.outcome is not Outcome.WAITING or self._late():
                        break
            except BrokerUnreachableError as error:
                missing = None
                last = Evaluation(Outcome.WAITING, f"{judged.seen}; then: {error}")
                await asyncio.sleep(_PAUSE_S)
            except TopicMissingError as error:
                missing_since = time.monotonic() if missing is None else missing_since
                missing = str(error)
                gone = time.monotonic() - missing_since >= MISSING_S
                last = Evaluation(Outcome.FAILED if gone else Outcome.WAITING, f"{judged.seen}; then: {error}")
                await asyncio.sleep(0.0 if gone else _PAUSE_S)
            except ConfigurationError as error:
                refused = str(error)
                last = Evaluation(Outcome.FAILED, f"{judged.seen}; then: {error}")
            if last.outcome is not Outcome.WAITING:
                break
        return WaitResult(
            outcome=last.outcome,
            waited_for=str(self._condition),
            waited_s=round(time.monotonic() - began, 1),
            seen=last.seen,
            result=last.result,
            missing=missing,
            refused=refused,
        )

    async def _evaluations(self) -> AsyncIterator[Evaluation]:
        """The condition's evaluation after every change, and now and then for the silences."""
        connection = await self._connect()
        async with ControlFollower(connection, self._application_id) as follower:
            while not self._late():
                await self._records.refresh(connection)
                if follower.hearing or await follower.confirm():
                    evaluation = self._judge(follower)
                    # An outage must not look like a silent instance: ask the brokers before giving up.
                    if evaluation.outcome is not Outcome.FAILED or await follower.confirm():
                        yield self._judge(follower)
                await follower.poll(_POLL_S)

    def _judge(self, follower: ControlFollower) -> Evaluation:
        evaluation = self._evaluate(follower)
        if not (unreadable := follower.view.unreadable):
            return evaluation
        keys = ", ".join(repr(key) for key in sorted(unreadable))
        return dataclasses.replace(evaluation, seen=f"{evaluation.seen} (records that cannot be read: {keys})")

    def _evaluate(self, follower: ControlFollower) -> Evaluation:
        return self._condition.evaluate(
            Observation(
                follower.view,
                silent_for_s=follower.silent_for_s(),
                heard=follower.silence.heard_since(),
                timeouts=self._timeouts(),
                now_ms=now_ms(),
                history=self._records.history,
                growths=self._records.growths,
            )
        )

    def _late(self) -> bool:
        return time.monotonic() > self._give_up_at


def wait_for(
    connection: KafkaConnection,
    application_id: str,
    condition: Condition,
    *,
    timeout_s: float,
    timeouts: Timeouts | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> WaitResult:
    """Wait in this thread."""
    by = timeouts or Timeouts()

    async def connect() -> KafkaConnection:
        return connection

    wait = ConditionWait(
        application_id,
        condition,
        connect,
        timeouts=lambda: by,
        give_up_at=time.monotonic() + timeout_s,
        say=say,
    )
    return asyncio.run(wait.result())


class ConditionRecords:
    """Reads and works out what a condition needs, again and again, in a thread: it would hold up an event loop."""

    def __init__(self, application_id: str, needs: Needs) -> None:
        self._application_id = application_id
        self._needs = needs
        self._read_at = -math.inf
        self.history: Sequence[HistoryRecord] = ()
        self.growths: Mapping[TaskId, ChangelogGrowth] = {}

    async def refresh(self, connection: KafkaConnection) -> None:
        """Read, where something is needed and was not read for 20 s.

        Raises:
            TopicMissingError: the application has no history, or no metrics topic.
        """
        if time.monotonic() - self._read_at < _EVERY_S:
            return
        application_id, needs = self._application_id, self._needs
        if needs.history:
            self.history = await asyncio.to_thread(read_history, connection, application_id, timeout_s=_READ_S)
        if needs.growth_s is not None:
            self.growths = await asyncio.to_thread(_growths, connection, application_id, needs.growth_s)
        self._read_at = time.monotonic()


def _growths(connection: KafkaConnection, application_id: str, seconds: float) -> Mapping[TaskId, ChangelogGrowth]:
    now = now_ms()
    records = read_metrics(connection, application_id, now - round(1000 * seconds), _READ_S)
    return changelog_growths(records, now)
