from __future__ import annotations

import pytest

from airflow_provider.control.drills.outputs import explains

HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS


def config(policy: str = "delete", kept_ms: int = WEEK_MS, kept_bytes: int = -1) -> dict[str, str]:
    return {"cleanup.policy": policy, "retention.ms": str(kept_ms), "retention.bytes": str(kept_bytes)}


@pytest.mark.parametrize(
    ("settings", "age_ms"),
    [
        pytest.param(config(), 60_000, id="a-week"),
        pytest.param(config(kept_ms=-1), 60_000, id="for-ever"),
        pytest.param(config(policy="", kept_ms=0), 60_000, id="no-policy"),
        pytest.param(config(kept_ms=2 * HOUR_MS), HOUR_MS - 1, id="younger-by-more-than-clocks-differ"),
    ],
)
def test_records_that_the_topic_keeps_are_not_gone_by_its_settings(settings: dict[str, str], age_ms: int) -> None:
    assert not explains(settings, age_ms)


@pytest.mark.parametrize(
    ("settings", "age_ms"),
    [
        pytest.param(config(), WEEK_MS, id="age"),
        pytest.param(config(kept_ms=2 * HOUR_MS), HOUR_MS, id="age-by-a-clock-that-is-behind"),
        pytest.param(config(kept_bytes=0), 60_000, id="size"),
        pytest.param(config(policy="compact"), 60_000, id="compaction"),
        pytest.param(config(policy="compact,delete"), 60_000, id="both"),
        pytest.param(config(), None, id="age-not-known"),
        pytest.param({}, None, id="topic-gone"),
    ],
)
def test_what_retention_or_compaction_may_have_removed_is_explained(
    settings: dict[str, str], age_ms: int | None
) -> None:
    assert explains(settings, age_ms)
