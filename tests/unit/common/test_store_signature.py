"""What a store's signature makes of a changed job."""

from __future__ import annotations

import dataclasses

import pytest

from airflow_provider.common.store_signature import KeptAggregate, StoreSignature
from airflow_provider.errors import ConfigurationError

COUNT = KeptAggregate(name="n", function="count", column=None, type="bigint", kinds=("integer",))
TOTAL = KeptAggregate(name="total", function="sum", column="amount", type="double", kinds=("double",))
LAST = KeptAggregate(name="last", function="last", column="note", type="string", kinds=("text",))
MEAN = KeptAggregate(name="mean", function="mean", column="amount", type="double", kinds=("double", "integer"))


def fresh(*aggregates: KeptAggregate) -> StoreSignature:
    return StoreSignature(
        key="customer",
        key_type="string",
        operation="aggregate",
        aggregates=aggregates,
        layouts=(tuple(range(len(aggregates))),),
        layout=1,
    )


def test_same_job_changes_nothing() -> None:
    assert fresh(COUNT, TOTAL).changes_to(fresh(COUNT, TOTAL)) == []
    assert fresh(COUNT, TOTAL).continued_by(fresh(COUNT, TOTAL)) == fresh(COUNT, TOTAL)


def test_another_order_makes_no_layout() -> None:
    assert fresh(COUNT, TOTAL).continued_by(fresh(TOTAL, COUNT)) == fresh(COUNT, TOTAL)


def test_added_aggregate_makes_a_layout_and_keeps_the_older() -> None:
    grown = fresh(COUNT, TOTAL).continued_by(fresh(MEAN, TOTAL, COUNT))

    assert grown.aggregates == (COUNT, TOTAL, MEAN)
    assert (grown.layouts, grown.layout) == (((0, 1), (0, 1, 2)), 2)


def test_going_back_takes_the_layout_that_was_there() -> None:
    back = fresh(COUNT, TOTAL).continued_by(fresh(COUNT, TOTAL, MEAN)).continued_by(fresh(COUNT, TOTAL))

    assert (back.layouts, back.layout) == (((0, 1), (0, 1, 2)), 1)


def test_aggregate_that_comes_again_has_a_new_place() -> None:
    again = fresh(COUNT, TOTAL).continued_by(fresh(COUNT)).continued_by(fresh(COUNT, TOTAL))

    assert again.aggregates == (COUNT, TOTAL, TOTAL)
    assert (again.layouts, again.layout) == (((0, 1), (0,), (0, 2)), 3)


def test_name_is_free_for_another_meaning_once_a_version_without_it_has_committed() -> None:
    without = fresh(COUNT, TOTAL).continued_by(fresh(COUNT))

    assert without.changes_to(fresh(COUNT, dataclasses.replace(TOTAL, function="max"))) == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"function": "max"}, id="function"),
        pytest.param({"column": "price"}, id="column"),
        pytest.param({"type": "float"}, id="type"),
        pytest.param({"kinds": ("integer",)}, id="kind"),
        pytest.param({"ignorenulls": True}, id="nulls"),
    ],
)
def test_another_meaning_of_a_name_is_a_change(change: dict[str, object]) -> None:
    (change_found,) = fresh(COUNT, TOTAL).changes_to(fresh(COUNT, dataclasses.replace(TOTAL, **change)))  # type: ignore[arg-type]

    assert change_found.startswith("the aggregate 'total': sum(amount) of type double became ")


def test_layouts_that_a_byte_cannot_tell_apart_are_refused() -> None:
    full = dataclasses.replace(fresh(COUNT, TOTAL), layouts=((0, 1),) * 255)

    assert full.continued_by(fresh(TOTAL, COUNT)).layout == 1
    with pytest.raises(ConfigurationError, match="255 sets of aggregates"):
        full.continued_by(fresh(COUNT))
