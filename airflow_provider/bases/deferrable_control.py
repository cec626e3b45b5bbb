"""What every Airflow task over an application's control plane has in common, operator or sensor."""

from __future__ import annotations

import asyncio
import functools
import json
import math
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator, Context
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider.bases.arguments import parse_if_given, parse_seconds
from airflow_provider.common.clock import now_ms
from airflow_provider.common.json_codec import to_plain
from airflow_provider.control.records.deployment import InstanceHandle
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.waiting.evaluation import Condition, Outcome, WaitResult
from airflow_provider.errors import ConfigurationError, TopicMissingError
from airflow_provider.hooks.kafka_streams import KafkaStreamsHook
from airflow_provider.links import FailoverRun
from airflow_provider.triggers import ControlTrigger, result_of

if TYPE_CHECKING:
    from airflow_provider.kafka.connection import KafkaConnection


_KEY: Final = "stateful-streams-wait"
_LAST_LOOK_MS: Final = 5_000
"""A try that begins after the deadline still looks once whether what it waits for is the case by now."""


def deadline_ms(context: Context | None, timeout_s: float, retries: int, step: str = "") -> int:
    """The epoch ms at which a wait is over, the same for every try.

    The first try notes in the task's state when it began, and the later ones go on by that. A task that a person
    clears begins from the start.

    Args:
        context: of the try; None, or one without a task state store, counts from now.
        step: what is waited for, where one task waits for several things in turn, each for `timeout_s`.
    """
    now = now_ms()
    store = None if context is None else context.get("task_state_store")
    began_ms = now
    if context is not None and store is not None:
        # Airflow raises max_tries by the retries when a task is cleared, so this names the try that began the series.
        first_try = max(1, context["ti"].max_tries - retries + 1)
        series = f"{first_try}/{step}"
        noted = store.get(_KEY)
        if isinstance(noted, dict) and noted.get("series") == series and isinstance(noted.get("began_ms"), int):
            began_ms = int(str(noted["began_ms"]))
        else:
            store.set(_KEY, {"series": series, "began_ms": now})
    return max(began_ms + int(timeout_s * 1000), now + _LAST_LOOK_MS)


_TIMEOUT_S: Final = 1.0
_EXECUTION: Final = "/execution"


def missing_triggerer() -> str | None:
    """What to say where no triggerer runs, in one line; None where one does, or where the API server does not tell.

    A worker reaches no database, so it asks the page of Airflow's health, which needs no login.
    """
    try:
        with urllib.request.urlopen(f"{_api_url()}/api/v2/monitor/health", timeout=_TIMEOUT_S) as answer:
            triggerer = json.load(answer)["triggerer"]
            status, heard = triggerer["status"], triggerer.get("latest_triggerer_heartbeat")
    except (urllib.error.URLError, OSError, ValueError, KeyError, TypeError):
        return None
    if status == "healthy":
        return None
    return (
        f"No triggerer runs (last heartbeat: {heard or 'never'}), and this task is deferred: it goes on once one does. "
        "Start `airflow triggerer`, or give the task deferrable=False."
    )


def _api_url() -> str:
    """Where tasks reach the API server: its pages are beside the interface for tasks, in the same server."""
    tasks_url = conf.get("core", "execution_api_server_url", fallback="") or ""
    if tasks_url.rstrip("/").endswith(_EXECUTION):
        return tasks_url.rstrip("/").removesuffix(_EXECUTION)
    base_url = conf.get("api", "base_url", fallback="") or ""
    return base_url.rstrip("/") if base_url.startswith("http") else f"http://localhost:8080{base_url.rstrip('/')}"


_LOOK_MS: Final = 3_000
"""A living instance speaks within a second, and the topics are read in less."""


class FinalTopicMissingError(TopicMissingError, AirflowFailException):
    """A `TopicMissingError` in an Airflow task: the application has no control topics, so there is no new try."""


class FinalConfigurationError(ConfigurationError, AirflowFailException):
    """A `ConfigurationError` in an Airflow task: another try would meet the same, so there is none."""


def _without_vain_tries(step: Callable[..., Any]) -> Callable[..., Any]:
    """Of ``execute`` and ``execute_complete``: note the context of the try, and end the task on a wrong setting."""

    @functools.wraps(step)
    def entered(self: DeferrableControl, context: Context, *args: Any, **kwargs: Any) -> Any:
        self.current_context = context
        try:
            return step(self, context, *args, **kwargs)
        except ConfigurationError as error:
            if isinstance(error, AirflowFailException):
                raise
            raise FinalConfigurationError(str(error)) from error
        except TopicMissingError as error:
            # An error of another topic, or of brokers that do not know it yet, is met by another try.
            if isinstance(error, AirflowFailException) or not self.has_no_control_topics():
                raise
            raise FinalTopicMissingError(str(error)) from error

    return entered


class DeferrableControl(BaseOperator):
    """One application, and the wait for a condition of it. The core of both bases for users.

    Deferred, the wait holds no worker. Otherwise the task waits in its worker, as any Airflow operator that is not
    deferrable does; a SIGTERM of that worker then counts as a person's end of the task, because Airflow tells them
    apart by nothing.

    A deferred task can be marked failed although its trigger fired, so every one of these retries by default. A wait is
    over at the same time for all tries; a `ConfigurationError` ends the task at once. An application without control
    topics ends it too, once the brokers have not known them for 20 s: its id is misspelt, or the operator that creates
    them has to run before.

    Args:
        deferrable: whether to wait in the triggerer; by default as ``[operators] default_deferrable`` of Airflow says.
        timeout_s: how long a wait may last over all tries, in seconds; None without limit.
        instance_timeout_s: silence of an instance that counts as its end, in seconds.
        start_timeout_s: the same while it starts.
        retries: as of every operator; 2 by default.
        retry_delay: as of every operator; 10 seconds by default.

    Raises:
        ConfigurationError: an argument or the connection is not what it has to be.
        TopicMissingError: the application has no control topics.
        FencedError: other publishers of its assignment took over again and again.
        BrokerUnreachableError: no broker answered.
    """

    template_fields: Sequence[str] = (
        "application_id",
        "kafka_conn_id",
        "timeout_s",
        "instance_timeout_s",
        "start_timeout_s",
    )

    current_context: Context | None = None
    """Of the try that runs; None before."""

    linked_instance: InstanceHandle | None = None
    """To whose log and Spark UI the task's links lead; Airflow asks at the end of a try, and when it defers."""

    linked_run: FailoverRun | None = None
    """The failover to which the task's link leads."""

    _waiting: tuple[ControlTrigger, KafkaConnection] | None = None
    """What waits in this worker; None while nothing does."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Have every operator and sensor, a user's own too, fail at once on a wrong setting."""
        super().__init_subclass__(**kwargs)
        for name in ("execute", "execute_complete"):
            if name in vars(cls):
                setattr(cls, name, _without_vain_tries(vars(cls)[name]))

    def __init__(
        self,
        *,
        application_id: str,
        kafka_conn_id: str = KafkaStreamsHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        timeout_s: float | str | None = 600.0,
        instance_timeout_s: float | str = Timeouts.instance_s,
        start_timeout_s: float | str = Timeouts.start_s,
        retries: int = 2,
        retry_delay: timedelta = timedelta(seconds=10),
        **kwargs: Any,
    ) -> None:
        super().__init__(retries=retries, retry_delay=retry_delay, **kwargs)
        self.application_id = application_id
        self.kafka_conn_id = kafka_conn_id
        self.deferrable = deferrable
        self.timeout_s = timeout_s
        self.instance_timeout_s = instance_timeout_s
        self.start_timeout_s = start_timeout_s

    @property
    def timeouts(self) -> Timeouts:
        """How long an instance may be silent, rendered.

        Raises:
            ConfigurationError: a timeout is not a positive number of seconds.
        """
        return Timeouts(
            parse_seconds("instance_timeout_s", self.instance_timeout_s),
            parse_seconds("start_timeout_s", self.start_timeout_s),
        )

    def wait_for(
        self, condition: Condition, stop_on_kill: InstanceHandle | None = None, step: str = "", look: bool = True
    ) -> Any:
        """Wait until a condition is met; go on in `execute_complete`, whose result this returns where it does.

        A task is not deferred for what is the case within three seconds: on a busy host Airflow may end one whose
        trigger fires before its process has ended, and count that as a try.

        Args:
            stop_on_kill: the process to stop when a person ends or clears the waiting task; None stops none.
            step: tells this wait from another one of the same task: each may last for ``timeout_s``.
            look: whether it may be the case soon. False for what has just been begun and takes longer.

        Raises:
            TaskDeferred: the wait goes on in the triggerer, and `execute_complete` in a worker after it.
            ConfigurationError: a timeout is not a positive, finite number of seconds.
        """
        self.log.info("Waiting for %s", condition)
        until_ms = self.until_ms(step)
        if not self.deferrable:
            return self._complete(self._wait_here(condition, until_ms, stop_on_kill))
        if look:
            soon_ms = now_ms() + _LOOK_MS
            # The end of a worker must not stop what ran before this task began.
            found = self._wait_here(condition, min(until_ms or soon_ms, soon_ms), stop_on_kill=None)
            if found.outcome is not Outcome.WAITING:
                return self._complete(found)
        if (why := missing_triggerer()) is not None:
            self.log.warning("%s", why)
        return self.defer(trigger=self.trigger(condition, until_ms, stop_on_kill), method_name="execute_complete")

    def _wait_here(self, condition: Condition, until_ms: int | None, stop_on_kill: InstanceHandle | None) -> WaitResult:
        trigger = self.trigger(condition, until_ms, stop_on_kill)
        connection = KafkaStreamsHook(self.kafka_conn_id).connection
        self._waiting = (trigger, connection)
        found = asyncio.run(trigger.wait(connection))
        self._waiting = None
        return found

    def _complete(self, found: WaitResult) -> Any:
        return self.execute_complete(self.current_context or Context(), to_plain(found))

    def on_kill(self) -> None:
        """Stop the instance that a task stands for while it waits in this worker, as the trigger does otherwise."""
        if self._waiting is not None:
            trigger, connection = self._waiting
            trigger.stop_instance(connection)

    def trigger(
        self, condition: Condition, until_ms: int | None, stop_on_kill: InstanceHandle | None = None
    ) -> ControlTrigger:
        """What waits for a condition, in the triggerer or here.

        Args:
            until_ms: epoch ms after which it gives up; None never.
        """
        return ControlTrigger(
            self.application_id,
            condition,
            kafka_conn_id=self.kafka_conn_id,
            deadline_ms=until_ms,
            instance_timeout_s=self.timeouts.instance_s,
            start_timeout_s=self.timeouts.start_s,
            stop_on_kill=stop_on_kill,
        )

    def has_no_control_topics(self) -> bool:
        """Whether the brokers know none or not all of the application's control topics, and have not for 20 s."""
        from airflow_provider.control.topics.reader import stay_absent

        return stay_absent(KafkaStreamsHook(self.kafka_conn_id).connection, self.application_id)

    wait_limit: str = "timeout_s"
    """The argument that says how long a wait may last."""

    @property
    def wait_s(self) -> float:
        """How long a wait may last over all tries, rendered, in seconds; infinite without a limit.

        Raises:
            ConfigurationError: it is not a positive, finite number.
        """
        limit_s = parse_if_given(parse_seconds, self.wait_limit, getattr(self, self.wait_limit))
        return math.inf if limit_s is None else limit_s

    def until_ms(self, step: str = "") -> int | None:
        """The epoch ms at which a wait is over, the same for every try; None for never."""
        if math.isinf(self.wait_s):
            return None
        return deadline_ms(self.current_context, self.wait_s, self.retries or 0, step)

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> Any:
        """Return the condition's result.

        Raises:
            InstanceError: it cannot be met any more.
            DeadlineError: it was not met in time.
        """
        try:
            result = result_of(event, f"{self.wait_limit}={self.wait_s:g}")
        except TopicMissingError as error:  # the trigger has asked for long enough
            raise FinalTopicMissingError(str(error)) from error
        self.log.info("Done: %s", result)
        return result
