"""The judge of the shop is worth nothing unless it finds each of these."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from airflow_provider.common.task_id import TaskId
from tests.chaos.judge import COMMIT_KEY, Copy, Record
from tests.chaos.shop_evidence import STAGES, ShopEvidence
from tests.chaos.shop_judge import closed_windows, first_rows, judge, pairs, products, reviews, sessions, sizes, stamps

Row = dict[str, Any]
Change = Callable[[ShopEvidence], ShopEvidence]


def order(number: int, customer: str, at: int, amount: int = 1, product: str = "tea") -> Row:
    return {"id": number, "customer": customer, "product": product, "amount": amount, "at": at}


ORDERS = [
    order(1, "ann", 1_000),
    order(2, "ann", 2_000),  # a duplicate
    order(3, "bob", 3_000, 0),  # free
    order(4, "ann", 20_000, 5, "jam"),
    order(5, "ann", 4_000),  # late
    order(6, "ann", 90_000_000),
]
SHOWN = [{"ad": "a", "shown": 1_000}, {"ad": "b", "shown": 1_000}]
CLICKS = [{"ad": "a", "clicked": 11_000}, {"ad": "b", "clicked": 11_001}]
CUSTOMERS = [
    {"customer": "bob", "version": 1, "changed": -70_000},
    {"customer": "bob", "version": 2, "changed": -30_000},
    {"customer": "ann", "version": 1, "changed": 1_500},
    {"customer": "ann", "version": 2, "changed": 15_000},
]
VERSIONS = [None, 1, 2, 1, 2, 2]
STAMPED = [None, 1, 2, 2, 1]
"""Of the orders that are over."""


def records(rows: Iterable[Any], key: Callable[[Any], str]) -> list[Record]:
    return [Record(0, offset, key(row).encode(), json.dumps(row).encode()) for offset, row in enumerate(rows)]


def keyed(rows: Mapping[str, Row]) -> list[Record]:
    return [Record(0, n, key.encode(), json.dumps(row).encode()) for n, (key, row) in enumerate(rows.items())]


def commit(stage: int, source: str, **given: Any) -> Record:
    value = {
        "task": f"{stage}_0",
        "sequence": 1,
        "generation": 1,
        "instance": "i1",
        "sources": {source: {"offset": 6, "topic_id": None}},
        "processed": 6,
        "filtered": {},
        "failed": 0,
        "late": 0,
        **given,
    }
    return Record(0, 0, COMMIT_KEY, json.dumps(value).encode())


def good() -> ShopEvidence:
    """One partition of everything."""
    given: dict[int, Row] = {
        0: {"late": 1},
        1: {"late": 1, "filtered": {"free": 1, "duplicates": 1}},
        6: {"processed": 4},
        9: {"processed": 10},
        17: {"processed": 10},
        12: {"processed": 3},
    }
    sizes_of = {"shop-impressions": 2, "shop-clicks": 2, "shop-customers": 4, "shop-versions": 4}
    commits = {}
    for stage in STAGES:
        end = sizes_of.get(stage.source, 6)
        at = {"sources": {stage.source: {"offset": end, "topic_id": None}}, "processed": end}
        more = at | given.get(stage.number, {})
        # The second partition of an internal topic has had nothing, of a source has no records.
        others = [
            dataclasses.replace(
                commit(stage.number, stage.source, task=f"{stage.number}_{n}", processed=0), partition=n
            )
            for n in range(1, stage.tasks)
            if stage.source.endswith("repartition")
        ]
        commits[stage.number] = [commit(stage.number, stage.source, **more), *others]
    enriched = [{**row, "version": version} for row, version in zip(ORDERS, VERSIONS, strict=True)]
    stamped = [{**row, "version": version, "changed": None} for row, version in zip(ORDERS, STAMPED, strict=False)]
    return ShopEvidence(
        inputs={
            "shop-orders": records(ORDERS, lambda row: row["customer"]),
            "shop-customers": records(CUSTOMERS, lambda row: row["customer"]),
            "shop-versions": records(CUSTOMERS, lambda row: row["customer"]),
            "shop-impressions": records(SHOWN, lambda row: row["ad"]),
            "shop-clicks": records(CLICKS, lambda row: row["ad"]),
        },
        outputs={
            "windows": records(closed_windows(ORDERS)[0], lambda row: row["customer"]),
            "unique": records(first_rows(ORDERS)[0], lambda row: row["customer"]),
            "sessions": keyed(sessions(ORDERS)),
            "attributed": records(pairs(SHOWN, CLICKS), lambda row: row["ad"]),
            "enriched": records(enriched, lambda row: row["customer"]),
            "products": keyed(products(ORDERS)),
            "sizes": keyed(sizes(closed_windows(ORDERS)[0])),
            "reviews": records(reviews(ORDERS), lambda row: row["customer"]),
            "stamped": records(stamped, lambda row: row["customer"]),
        },
        commits=commits,
        copies={TaskId(0, 0): [Copy("i1", 0, "active", {b"a": b"1"}), Copy("i2", 0, "standby", {b"a": b"1"})]},
    )


def test_good_run_is_right() -> None:
    verdict = judge(good())
    assert verdict.right, verdict.lines()
    assert verdict.compared["commits"] == 24


def test_windows_are_those_that_are_over_without_what_is_late() -> None:
    rows, late = closed_windows(ORDERS)
    assert late == 1
    assert [(row["customer"], row["window"]["start"], row["number"], row["total"]) for row in rows] == [
        ("ann", "1970-01-01T00:00:00.000Z", 2, 2),
        ("bob", "1970-01-01T00:00:00.000Z", 1, 0),
        ("ann", "1970-01-01T00:00:20.000Z", 1, 5),
    ]


def test_window_is_over_when_the_watermark_reaches_its_end() -> None:
    assert closed_windows([order(1, "ann", 9_999), order(2, "ann", 14_999), order(3, "ann", 9_999)])[1] == 0
    assert closed_windows([order(1, "ann", 9_999), order(2, "ann", 15_000), order(3, "ann", 9_999)])[1] == 1


def test_first_rows_are_the_time_apart() -> None:
    rows, late, dropped = first_rows(ORDERS)
    assert ([row["id"] for row in rows], late, dropped) == ([1, 4, 6], 1, {"free": 1, "duplicates": 1})
    assert len(first_rows([order(1, "ann", 0), order(2, "ann", 3_000)])[0]) == 2
    assert len(first_rows([order(1, "ann", 0), order(2, "ann", 2_999)])[0]) == 1


def test_review_comes_before_the_row_that_makes_it_due_and_right_behind_one_that_is_late() -> None:
    found = reviews([order(1, "ann", 0, 2), order(2, "ann", 20_000, 3), order(3, "ann", 0, 4)])
    assert [(row["at"], row["orders"], row["spent"]) for row in found] == [(15_000, 1, 2), (15_000, 3, 9)]


def test_sessions_touch_at_the_gap() -> None:
    found = sessions([order(1, "ann", 0), order(2, "bob", 2_000), order(3, "ann", 4_001)])
    assert [(row["window"]["end"], row["number"]) for row in found.values()] == [
        ("1970-01-01T00:00:04.000Z", 2),
        ("1970-01-01T00:00:06.001Z", 1),
    ]


def test_click_belongs_to_an_impression_up_to_ten_seconds_before() -> None:
    assert pairs(SHOWN, CLICKS) == [{**SHOWN[0], "clicked": 11_000}, {**SHOWN[1], "clicked": None}]


def test_order_is_stamped_by_the_version_of_its_time_unless_it_is_late_or_the_table_was_silent() -> None:
    deleted = Record(0, 4, b"ann", None, time_ms=16_000)
    more = [order(7, "ann", 15_999), order(8, "ann", 16_000), order(9, "ann", 90_000_000)]
    over, exact = stamps({0: [*ORDERS[:5], *more]}, [*records(CUSTOMERS, lambda row: row["customer"]), deleted])
    assert [row["id"] for row in over] == [1, 2, 3, 4, 5, 7, 8]
    assert exact == {1: None, 2: 1, 3: 2, 4: None, 7: 2, 8: None}

    silent = [{"customer": "bob", "version": n, "changed": at} for n, at in enumerate([0, 40_000, 80_000, 150_000])]
    at = [59_000, 61_000, 124_000, 126_000, 149_000, 449_000, 451_000, 90_000_000]
    of_bob = {0: [order(n, "bob", at) for n, at in enumerate(at)]}
    assert stamps(of_bob, records(silent, lambda row: row["customer"]))[1] == {1: 1, 2: 2, 6: 3}


def output(sink: str, change: Callable[[list[Record]], Sequence[Record]]) -> Change:
    return lambda e: dataclasses.replace(e, outputs={**e.outputs, sink: change(list(e.outputs[sink]))})


def committed(stage: int, **given: Any) -> Change:
    def change(e: ShopEvidence) -> ShopEvidence:
        first, *others = e.commits[stage]
        value = json.loads(first.value or b"") | given
        changed = dataclasses.replace(first, value=json.dumps(value).encode())
        return dataclasses.replace(e, commits={**e.commits, stage: [changed, *others]})

    return change


def with_version(row: int, version: int | None) -> Callable[[list[Record]], Sequence[Record]]:
    def change(rows: list[Record]) -> Sequence[Record]:
        value = json.loads(rows[row].value or b"") | {"version": version}
        rows[row] = dataclasses.replace(rows[row], value=json.dumps(value).encode())
        return rows

    return change


@pytest.mark.parametrize("sink", ["windows", "unique", "attributed", "enriched", "reviews", "stamped"])
def test_row_that_is_lost_doubled_or_wrong_is_found(sink: str) -> None:
    assert judge(output(sink, lambda rows: rows[1:])(good())).differences[f"{sink} missing"]
    assert judge(output(sink, lambda rows: [*rows, rows[-1]])(good())).differences[f"{sink} doubled"]
    wrong = {"customer": "ann", "id": 9, "version": 2}
    more = Record(0, 9, b"ann", json.dumps(wrong).encode())
    assert judge(output(sink, lambda rows: [*rows, more])(good())).differences[f"{sink} wrong"]


@pytest.mark.parametrize("sink", ["sessions", "products", "sizes"])
def test_result_that_is_missing_or_not_the_newest_is_found(sink: str) -> None:
    assert judge(output(sink, lambda rows: rows[1:])(good())).differences[f"{sink} wrong"]
    deleted = output(sink, lambda rows: [*rows, dataclasses.replace(rows[0], value=None)])
    if sink == "sessions":
        assert judge(deleted(good())).differences["sessions wrong"]
    else:
        assert judge(output(sink, lambda rows: [*rows, rows[0]])(good())).differences[f"{sink} went back"]


@pytest.mark.parametrize(
    ("change", "sort"),
    [
        pytest.param(output("enriched", with_version(1, 2)), "enriched by an earlier version", id="version-back"),
        pytest.param(output("enriched", with_version(1, 7)), "enriched by no version", id="no-version"),
        pytest.param(output("stamped", with_version(3, 1)), "stamped by another version", id="version-of-before"),
        pytest.param(output("stamped", with_version(0, 1)), "stamped by another version", id="version-of-later"),
        pytest.param(output("enriched", with_version(5, 1)), "last order without last version", id="old-version"),
        pytest.param(committed(0, late=0), "late miscounted", id="late"),
        pytest.param(committed(3, late=1), "late miscounted", id="late-behind-a-topic"),
        pytest.param(committed(9, failed=1), "failed miscounted", id="failed"),
        pytest.param(committed(1, filtered={"free": 1}), "dropped miscounted", id="duplicates"),
        pytest.param(committed(2, processed=7), "processed miscounted", id="processed"),
        pytest.param(committed(9, processed=7), "records between stages lost or doubled", id="between-stages"),
        pytest.param(
            committed(4, sources={"shop-impressions": {"offset": 1}}), "not processed to the end", id="not-to-the-end"
        ),
        pytest.param(committed(6, task="3_0"), "commit of another task", id="another-task"),
        pytest.param(
            lambda e: dataclasses.replace(e, commits={**e.commits, 5: []}), "never committed", id="never-committed"
        ),
        pytest.param(
            lambda e: dataclasses.replace(
                e, copies={TaskId(0, 0): [Copy("i1", 0, "active", {b"a": b"1"}), Copy("i2", 0, "standby", {})]}
            ),
            "standby differs",
            id="standby",
        ),
        pytest.param(
            lambda e: dataclasses.replace(e, copies={TaskId(0, 0): [Copy("i1", 0, "active", unreadable="damaged")]}),
            "active unreadable",
            id="unreadable",
        ),
    ],
)
def test_difference_is_found(change: Change, sort: str) -> None:
    verdict = judge(change(good()))
    assert not verdict.right
    assert verdict.differences[sort], verdict.lines()
