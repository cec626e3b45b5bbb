from __future__ import annotations

import pytest

from airflow_provider.changelog.completeness import ResumePoint, find_resume_point
from airflow_provider.state.position import ChangelogPosition, Position

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000
CHANGELOG = "orders-state-changelog"


def applied(complete_at_ms: int = NOW_MS - HOUR_MS, changelog: str = CHANGELOG) -> Position:
    at = ChangelogPosition(offset=50, complete_at_ms=complete_at_ms)
    return Position(changelogs={changelog: at}, commit=b"commit")


STORE = applied()


@pytest.mark.parametrize(
    ("position", "low", "high", "expected"),
    [
        pytest.param(None, 0, 100, (0, False, "empty"), id="empty-store"),
        pytest.param(None, 30, 100, (30, False, "empty"), id="empty-store-and-a-cut-log"),
        pytest.param(STORE, 0, 100, (50, False, "resumed at 50"), id="in-the-middle"),
        pytest.param(STORE, 0, 50, (50, False, "resumed"), id="at-the-end"),
        pytest.param(STORE, 50, 100, (50, False, "resumed"), id="at-the-start"),
        pytest.param(STORE, 0, 49, (0, True, "past the changelog's end 49"), id="past-the-end"),
        pytest.param(STORE, 0, 0, (0, True, "created again"), id="past-the-end-of-an-empty-log"),
        pytest.param(STORE, 51, 100, (51, True, "before the changelog's start 51"), id="before-the-start"),
        pytest.param(
            applied(changelog="other"), 0, 100, (0, True, "'other'"), id="another-changelog"
        ),
        pytest.param(
            applied(NOW_MS - 23 * HOUR_MS), 0, 100, (50, False, "resumed"),
            id="slept-as-long-as-deletions-are-surely-kept",
        ),
        pytest.param(
            applied(NOW_MS - 23 * HOUR_MS - 1), 0, 100, (0, True, "23.0 h"),
            id="slept-longer-if-the-clock-was-set-back-an-hour",
        ),
        pytest.param(
            applied(NOW_MS + HOUR_MS), 0, 100, (50, False, "resumed"),
            id="clock-was-set-back-an-hour",
        ),
        pytest.param(
            applied(NOW_MS + HOUR_MS + 1), 0, 100, (0, True, "1.0 h ahead"),
            id="clock-was-set-back-further",
        ),
    ],
)  # fmt: skip
def test_restore_begins(position: Position | None, low: int, high: int, expected: tuple[int, bool, str]) -> None:
    found: ResumePoint = find_resume_point(
        position, CHANGELOG, low, high, NOW_MS, 24 * HOUR_MS, holds_data=position is not None
    )

    offset, fresh, reason = expected
    assert (found.offset, found.fresh) == (offset, fresh)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("position", "holds_data", "expected"),
    [
        pytest.param(
            applied(changelog="other"), False, (30, True, "applied from 'other'"), id="of-another-name-before"
        ),
        pytest.param(Position(), False, (30, False, "empty"), id="before-any-commit"),
        pytest.param(None, True, (30, True, "unknown changelog"), id="filled-by-something-else"),
    ],
)
def test_store_without_a_position_is_restored(
    position: Position | None, holds_data: bool, expected: tuple[int, bool, str]
) -> None:
    found = find_resume_point(position, CHANGELOG, 30, 100, NOW_MS, 24 * HOUR_MS, holds_data=holds_data)

    assert (found.offset, found.fresh) == expected[:2]
    assert expected[2] in found.reason
