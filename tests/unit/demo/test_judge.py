from __future__ import annotations

import dataclasses

import pytest

from airflow_provider.demo.aircraft import Aircraft
from airflow_provider.demo.judge import Outputs, judge
from airflow_provider.demo.state_row import Commit
from airflow_provider.demo.truth import Truth

N1 = Aircraft(3, 300.0, 6.0, 4.0, "SEA")
N2 = Aircraft(1, 100.0, None, None, "JFK")
TRUTH = Truth({"N1": N1, "N2": N2}, 5, 1)
STATE = {"N1": N1, "N2": N2}
COMMITS = {0: Commit(3, 3, 0, 1, "i1"), 1: Commit(2, 2, 1, 1, "i2")}


def outputs(*taken: tuple[str, Aircraft]) -> Outputs:
    found = Outputs()
    for offset, (tail_number, aircraft) in enumerate(taken):
        found.take(tail_number, aircraft, f"partition 0, offset {offset}")
    return found


EARLIER = dataclasses.replace(N1, flights=2)
OUTPUTS = outputs(("N1", EARLIER), ("N2", N2), ("N1", N1))


def test_right_result_is_right() -> None:
    verdict = judge(TRUTH, STATE, OUTPUTS, COMMITS)

    assert verdict.right
    assert verdict.compared == 2
    assert verdict.lines() == []


@pytest.mark.parametrize(
    "wrong",
    [
        dataclasses.replace(N1, flights=4),
        dataclasses.replace(N1, distance=300.5),
        dataclasses.replace(N1, dep_delay_sum=None),
        dataclasses.replace(N1, dep_delay_max=5.0),
        dataclasses.replace(N1, last_dest="JFK"),
    ],
    ids=["flights", "distance", "dep_delay_sum", "dep_delay_max", "last_dest"],
)
def test_one_wrong_value_in_the_state_is_found(wrong: Aircraft) -> None:
    verdict = judge(TRUTH, {**STATE, "N1": wrong}, OUTPUTS, COMMITS)

    assert not verdict.right
    assert len(verdict.different) == 1
    assert verdict.different[0].startswith("N1: state")


def test_wrong_last_output_is_found() -> None:
    verdict = judge(TRUTH, STATE, outputs(("N1", EARLIER), ("N2", N2)), COMMITS)

    assert [line.partition(",")[0][:10] for line in verdict.different] == ["N1: output"]


def test_missing_aircraft_is_found() -> None:
    verdict = judge(TRUTH, {"N1": N1}, OUTPUTS, COMMITS)

    assert [line.split(":")[0] for line in verdict.different] == ["N2"]


def test_aircraft_too_much_is_found() -> None:
    verdict = judge(TRUTH, {**STATE, "N3": N2}, OUTPUTS, COMMITS)

    assert [line.split(":")[0] for line in verdict.different] == ["N3"]
    assert verdict.compared == 3


@pytest.mark.parametrize("again", [N1, EARLIER], ids=["the same output", "an older output"])
def test_output_twice_is_found(again: Aircraft) -> None:
    verdict = judge(TRUTH, STATE, outputs(("N2", N2), ("N1", EARLIER), ("N1", again), ("N1", N1)), COMMITS)

    assert len(verdict.repeated) == 1
    assert not verdict.right
    assert verdict.different == ()


@pytest.mark.parametrize(
    "commit",
    [Commit(2, 2, 0, 1, "i2"), Commit(2, 3, 1, 1, "i2"), Commit(3, 2, 1, 1, "i2")],
    ids=["filtered", "processed", "source offset"],
)
def test_wrong_count_in_a_commit_record_is_found(commit: Commit) -> None:
    verdict = judge(TRUTH, STATE, OUTPUTS, {**COMMITS, 1: commit})

    assert len(verdict.miscounted) == 1
    assert not verdict.right


def test_many_differences_are_reported_in_a_few_lines() -> None:
    truth = Truth({f"N{i}": N2 for i in range(50)}, 5, 1)

    lines = judge(truth, {}, Outputs(), COMMITS).lines()

    assert len(lines) == 6
    assert lines[-1] == "different: and 45 more"
