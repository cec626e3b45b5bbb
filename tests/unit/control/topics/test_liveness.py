from __future__ import annotations

import pytest

from airflow_provider.control.records.status import FormerProcess, InstanceState, TaskState
from airflow_provider.control.topics.liveness import Liveness, Timeouts, highest_generation, liveness, may_be_starting
from airflow_provider.errors import ConfigurationError
from tests.builders import active, instance

TIMEOUTS = Timeouts(5.0, 120.0)


@pytest.mark.parametrize(
    ("state", "silent_s", "expected"),
    [
        pytest.param(InstanceState.RUNNING, 5.0, Liveness.ALIVE, id="running-within-the-timeout"),
        pytest.param(InstanceState.RUNNING, 5.1, Liveness.SILENT, id="running-beyond-it"),
        pytest.param(InstanceState.STOPPING, 5.1, Liveness.SILENT, id="stopping-beyond-it"),
        pytest.param(InstanceState.STARTING, 120.0, Liveness.ALIVE, id="starting-within-the-start-timeout"),
        pytest.param(InstanceState.STARTING, 120.1, Liveness.SILENT, id="starting-beyond-it"),
        pytest.param(InstanceState.STOPPED, 0.0, Liveness.ENDED, id="stopped"),
        pytest.param(InstanceState.ENDED, 999.0, Liveness.ENDED, id="ended-long-ago"),
    ],
)
def test_state_and_silence_decide(state: InstanceState, silent_s: float, expected: Liveness) -> None:
    assert liveness(instance("a", state=state), silent_s, TIMEOUTS) is expected


def test_start_is_never_allowed_less_than_a_heartbeat_is() -> None:
    assert Timeouts(10.0, 2.0).allowed_s(InstanceState.STARTING) == 10.0


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["instance_timeout_s", "start_timeout_s", "stall_timeout_s"])
def test_timeout_that_is_no_positive_number_is_refused(name: str, seconds: float) -> None:
    with pytest.raises(ConfigurationError, match=name):
        Timeouts(**{name.replace("_timeout", ""): seconds})


def test_claimed_launch_may_be_under_way_until_the_start_timeout() -> None:
    claim = instance("a", state=InstanceState.STARTING, incarnation=1_000_000)

    assert may_be_starting(claim, 1_119_999, TIMEOUTS)
    assert not may_be_starting(claim, 1_120_000, TIMEOUTS)
    assert not may_be_starting(instance("a", incarnation=1_000_000), 1_000_001, TIMEOUTS)


def test_generation_that_any_instance_has_known_counts_also_once_it_ended() -> None:
    former = FormerProcess(incarnation=1, state=InstanceState.ENDED, heard_at_ms=0, generation=5, how="killed")

    assert highest_generation([]) == 0
    assert highest_generation([instance("a", generation=3)]) == 3
    assert highest_generation([instance("a", state=InstanceState.ENDED, generation=4), instance("b")]) == 4
    assert highest_generation([instance("a", state=InstanceState.STARTING, former=former)]) == 5
    assert highest_generation([instance("a", active(0, TaskState.RESTORING, committed_generation=6))]) == 6
