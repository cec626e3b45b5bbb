from __future__ import annotations

import pytest

from airflow_provider.control.outlook.metrics_forecasts import metrics_forecasts
from airflow_provider.control.outlook.slo import Slo, missed_ahead
from airflow_provider.control.records.metrics import MetricsRecord
from tests.unit.control.outlook.test_metrics_forecasts import MEASURED, NOW_MS, day

DAY_S = 86_400.0


def findings(slo: Slo, records: list[MetricsRecord] | None = None) -> list[str]:
    """Of a day in which the disk lost 1,440 MiB of 10,000, the changelog and the store grew."""
    forecasts = metrics_forecasts(
        day() if records is None else records,
        NOW_MS,
        min_free_bytes=slo.disk_free_bytes,
        max_rto_s=slo.replay_rto_s or slo.rto_s,
        basis=MEASURED,
    )
    return list(missed_ahead("orders", forecasts, slo, 1))


def test_disk_that_is_full_soon_is_found_with_what_helps() -> None:
    (finding,) = findings(Slo(forecast_s=7 * DAY_S))

    assert finding == (
        "a's disk is full in 5.9 days: it has 8,563.0 MiB free and loses 1,440.0 MiB a day. Give it more room; or "
        "add an instance (the scale DAG, or 'stateful-streams run') and share the tasks out: stateful-streams assign "
        "orders --balance"
    )


def test_disk_is_compared_with_what_is_promised_to_be_free() -> None:
    (finding,) = findings(Slo(forecast_s=DAY_S, disk_free_bytes=8_000 << 20))

    assert "a's disk has less than the promised 8,000.0 MiB left in 9.4 hours" in finding


def test_disk_that_has_too_little_now_is_left_to_the_heartbeat() -> None:
    assert findings(Slo(forecast_s=DAY_S, disk_free_bytes=9_000 << 20)) == []


@pytest.mark.parametrize(
    ("slo", "problem"),
    [
        pytest.param(Slo(replay_rto_s=3.0), "takes longer than the 3 s that are promised: 3.4 s today", id="now"),
        pytest.param(
            Slo(replay_rto_s=10.0, forecast_s=5 * DAY_S),
            "will take, in 4.6 days, longer than the 10 s that are promised: 3.4 s today",
            id="soon",
        ),
    ],
)
def test_replay_that_takes_too_long_is_found_with_what_helps(slo: Slo, problem: str) -> None:
    (finding,) = findings(slo)

    assert f"task 0_0 without a copy {problem}" in finding
    assert finding.endswith("stateful-streams assign orders --standbys 2")


def test_growth_beyond_what_is_promised_is_found() -> None:
    (finding,) = findings(Slo(changelog_records_per_day=100_000))

    assert "the changelog of task 0_0 grows by 144,000 records a day, 100,000 are promised" in finding
    assert "stateful-streams metrics orders" in finding


@pytest.mark.parametrize(
    "slo",
    [
        pytest.param(Slo(), id="nothing-promised"),
        pytest.param(Slo(rto_s=3.0), id="rto-is-of-warm-copies"),
        pytest.param(Slo(replay_rto_s=10.0, forecast_s=4 * DAY_S), id="later-than-asked-for"),
        pytest.param(Slo(changelog_records_per_day=150_000), id="grows-as-allowed"),
    ],
)
def test_what_is_kept_or_not_promised_is_no_finding(slo: Slo) -> None:
    assert findings(slo) == []


def test_too_few_records_find_nothing() -> None:
    strict = Slo(forecast_s=1e9, replay_rto_s=10.0, changelog_records_per_day=1)

    assert findings(strict, day(minutes=10)) == []
    assert findings(strict, []) == []
