from __future__ import annotations

import pytest

from airflow_provider.control.drill import check_progress, choose_victim, source_offsets
from airflow_provider.errors import AssignmentError, InstanceError, StateError
from tests.builders import active, assigned, instance, standby, view_of

VIEW = view_of(
    assigned("a b", "b a", "b a"),
    instance("a", active(0, source_offset=5), standby(1)),
    instance("b", active(1, source_offset=7), active(2), standby(0)),
)


def test_instance_with_the_most_active_tasks_is_chosen() -> None:
    assert choose_victim(VIEW, ["a", "b"]) == "b"


def test_named_instance_is_chosen() -> None:
    assert choose_victim(VIEW, ["a", "b"], "a") == "a"


def test_instance_that_does_not_live_is_refused() -> None:
    with pytest.raises(InstanceError, match="'a' of 'app' does not live"):
        choose_victim(VIEW, ["b"], "a")


def test_application_without_an_assignment_is_refused() -> None:
    with pytest.raises(AssignmentError, match="assigned yet"):
        choose_victim(view_of(None), ["a"])


def test_source_offsets_are_those_of_the_assigned_active() -> None:
    assert source_offsets(VIEW) == {0: 5, 1: 7}


def test_progress_is_told() -> None:
    assert check_progress({0: 5, 1: 7}, {0: 9, 1: 7, 2: 1}) == {0: 4, 1: 0}


@pytest.mark.parametrize("after", [{0: 4}, {}], ids=["went back", "tells none"])
def test_lost_input_is_an_error(after: dict[int, int]) -> None:
    with pytest.raises(StateError, match="Task 0 was at source offset 5"):
        check_progress({0: 5}, after)
