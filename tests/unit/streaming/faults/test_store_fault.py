from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider.streaming.faults.store_fault import StoreFaultKind, inject_store_fault


@pytest.mark.parametrize("kind", StoreFaultKind)
def test_each_kind_changes_the_files(kind: StoreFaultKind, tmp_path: Path) -> None:
    store = tmp_path / "rocksdb"
    store.mkdir()
    (store / "000001.sst").write_bytes(b"keys and values")

    inject_store_fault(kind, store)

    assert {path.name: path.read_bytes() for path in tmp_path.rglob("*.sst")} != {"000001.sst": b"keys and values"}
