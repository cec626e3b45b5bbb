from __future__ import annotations

import re
from typing import Any

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming import InMemory, RocksDBOptions
from airflow_provider.testing import check_store
from tests.unit.testing import broken_stores
from tests.unit.testing.sqlite_store import SQLiteStore


@pytest.mark.long
@pytest.mark.parametrize("kind", [RocksDBOptions(), InMemory(), SQLiteStore], ids=["rocksdb", "memory", "a-users-own"])
def test_store_that_keeps_what_a_task_relies_on_passes(kind: Any) -> None:
    check_store(kind, crashes=100)


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        (broken_stores.NotAtomic, "a write is all or nothing|came back|should have"),
        (broken_stores.PositionApart, "with the position of write|of a later write than its position"),
        (broken_stores.PositionFirst, "with the position of write"),
        (broken_stores.ShortKeysFirst, "keys come in the order of their bytes"),
        (broken_stores.ForgetsDeletions, "came back"),
        (broken_stores.NoEmptyValues, r"get\(\) says None"),
        (broken_stores.TooFew, "should have"),
        (broken_stores.PositionInMemory, "with the position of write 0"),
        (broken_stores.Refusing, "it raises StoreCorruptedError: .*no such page"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_a_store_does_wrong_is_said_in_one_line(broken: Any, found: str) -> None:
    with pytest.raises(AssertionError) as raised:
        check_store(broken)

    assert re.search(found, str(raised.value))
    assert str(raised.value).startswith(f"tests.unit.testing.broken_stores:{broken.__name__}: ")
    assert "\n" not in str(raised.value)


def test_what_cannot_keep_a_store_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"which has no position\(\) and no range\(\)"):
        check_store(dict)  # type: ignore[arg-type]
