from __future__ import annotations

import pytest

from airflow_provider.streaming.driver.slot_state import SlotState

WORKING = (SlotState.STEADY, SlotState.SETTLING, SlotState.BACKING_OFF)


@pytest.mark.parametrize("before", WORKING)
@pytest.mark.parametrize("after", [*WORKING, SlotState.STOPPING])
def test_slot_that_works_may_become_anything_but_stopped(before: SlotState, after: SlotState) -> None:
    assert before.transition(after) is after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        *((before, SlotState.STOPPED) for before in WORKING),
        *((SlotState.STOPPING, after) for after in WORKING),
        *((SlotState.STOPPED, after) for after in SlotState if after is not SlotState.STOPPED),
    ],
)
def test_slot_that_stops_works_no_more(before: SlotState, after: SlotState) -> None:
    with pytest.raises(RuntimeError, match=f"{before.value} cannot become {after.value}"):
        before.transition(after)


def test_slot_that_is_stopping_stops() -> None:
    assert SlotState.STOPPING.transition(SlotState.STOPPED) is SlotState.STOPPED
