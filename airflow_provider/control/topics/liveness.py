"""Which instances live: decided here alone, from a status, the length of a silence and two timeouts."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.errors import ConfigurationError


@dataclass(frozen=True)
class Timeouts:
    """How long an instance may be silent, and a task stand still.

    Args:
        instance_s: seconds of silence after which an instance that runs or stops counts as gone.
        start_s: the same for one that starts, which sends no heartbeat before Spark is up; not less than `instance_s`
            counts.
        stall_s: seconds for which a task may commit nothing although its source has records. Above what a promotion
            takes on a busy host, so that an answer is not taken for the next stall.

    Raises:
        ConfigurationError: one is not a positive, finite number of seconds.
    """

    instance_s: float = 5.0
    start_s: float = 180.0
    stall_s: float = 120.0

    def __post_init__(self) -> None:
        given = {
            "instance_timeout_s": self.instance_s, "start_timeout_s": self.start_s, "stall_timeout_s": self.stall_s
        }  # fmt: skip
        for name, seconds in given.items():
            if not (math.isfinite(seconds) and seconds > 0):
                raise ConfigurationError(f"{name} is {seconds:g}: use a positive, finite number of seconds.")

    def allowed_s(self, state: InstanceState) -> float:
        """Seconds for which an instance in this state may be silent."""
        return max(self.instance_s, self.start_s) if state is InstanceState.STARTING else self.instance_s


class Liveness(Enum):
    """What an observer may take an instance for."""

    ALIVE = "alive"
    SILENT = "silent"
    """It reported no end, and sent no heartbeat for longer than allowed: its host is lost, or it hangs."""
    ENDED = "ended"
    """It stopped, or its launcher reported its end."""


def liveness(status: InstanceStatus, silent_for_s: float, timeouts: Timeouts) -> Liveness:
    """Whether an instance lives."""
    if not status.state.alive:
        return Liveness.ENDED
    return Liveness.SILENT if silent_for_s > timeouts.allowed_s(status.state) else Liveness.ALIVE


def running_instances(
    statuses: Mapping[str, InstanceStatus], silent_for_s: Mapping[str, float], timeouts: Timeouts
) -> list[str]:
    """The instances that are up and live, sorted.

    Args:
        silent_for_s: seconds since each instance's last heartbeat; one that is not named was not silent.
    """
    return [
        name
        for name, status in sorted(statuses.items())
        if status.state is InstanceState.RUNNING
        and liveness(status, silent_for_s.get(name, 0.0), timeouts) is Liveness.ALIVE
    ]


def may_be_starting(status: InstanceStatus, now_ms: int, timeouts: Timeouts) -> bool:
    """Whether a launch that was claimed may still be under way: an incarnation is the epoch ms of its launch."""
    return status.state is InstanceState.STARTING and now_ms - status.incarnation < timeouts.start_s * 1000


def highest_generation(statuses: Collection[InstanceStatus]) -> int:
    """The greatest generation that instances carry or carried out, or found in commit records; 0 where there is none.

    Those that ended count: where the assignment topic is lost and every instance with it, nobody else knows.
    """
    committed = (t.committed_generation or 0 for s in statuses for t in s.tasks)
    former = (s.former.generation for s in statuses if s.former)
    return max([*(s.generation for s in statuses), *committed, *former], default=0)


class SilenceClock:
    """Counts the silence of instances so that only an instance's own silence counts, never an outage of the observer.

    The caller passes the time in, so that nothing here knows a clock.
    """

    def __init__(self) -> None:
        self._heard: dict[str, float] = {}
        self._expected: dict[str, float] = {}
        self._since = 0.0

    def heard(self, instance: str, now: float) -> None:
        """A heartbeat of an instance was read."""
        self._heard[instance] = now

    def expect(self, instances: Iterable[str], now: float) -> None:
        """Count the silence of these too although they never sent a heartbeat: since they are first expected."""
        self._expected = {name: self._expected.get(name, now) for name in instances}

    def restart(self, now: float) -> None:
        """Begin again for every instance: until now the observer could not have read a heartbeat."""
        self._since = now

    def silent_for_s(self, now: float) -> Mapping[str, float]:
        """Seconds of silence of each that sent a heartbeat or is expected to, none longer than the observer reads."""
        return {name: now - max(at, self._since) for name, at in (self._expected | self._heard).items()}

    def heard_since(self) -> frozenset[str]:
        """Instances that sent a heartbeat since the observer reads; what history says of others may be long past."""
        return frozenset(name for name, heard in self._heard.items() if heard > self._since)

    def longest_s(self, instances: Iterable[str], now: float) -> float:
        """The longest silence among these; 0 when none of them ever sent a heartbeat."""
        silent = self.silent_for_s(now)
        return max((silent.get(name, 0.0) for name in instances), default=0.0)
