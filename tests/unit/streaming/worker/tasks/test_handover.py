from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.errors import StoreLockedError
from airflow_provider.state.position import Position
from airflow_provider.state.store import Store
from airflow_provider.streaming.worker.tasks.handover import Handover, open_store


class Worker:
    """Holds one store and lets go of it when asked."""

    def __init__(self) -> None:
        self.handover = Handover(self._release)
        self.asked: list[str] = []
        self.willing = threading.Event()
        self.willing.set()
        self._store: Store | None = None

    def open(self, path: Path, timeout_s: float = 20.0, instance: str = "i1") -> Store:
        store = open_store(lambda: Store(path, ["state"]), path, self.handover.address, instance, timeout_s)
        assert isinstance(store, Store)
        self._store = store
        return store

    def close(self) -> None:
        self._let_go()
        self.handover.close()

    def _release(self, folder: str) -> bool:
        self.willing.wait(10)
        self.asked.append(folder)
        return self._let_go()

    def _let_go(self) -> bool:
        store, self._store = self._store, None
        if store is not None:
            store.close()
        return store is not None


@pytest.fixture
def workers() -> Iterator[tuple[Worker, Worker]]:
    pair = (Worker(), Worker())
    yield pair
    for worker in pair:
        worker.close()


def test_holder_can_be_asked_however_long_the_name_of_the_temporary_folder_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("deep" * 20) / ("deeper" * 20)
    deep.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    first, second = Worker(), Worker()
    path = tmp_path / "0_0" / "state"
    try:
        first.open(path)
        second.open(path)

        assert first.asked == [str(path)]
        assert len(list(deep.iterdir())) == 2
    finally:
        first.close()
        second.close()
    assert list(deep.iterdir()) == []


def test_holder_lets_go_when_asked(workers: tuple[Worker, Worker], tmp_path: Path) -> None:
    first, second = workers
    path = tmp_path / "0_0" / "state"
    first.open(path).write({"state": [(b"k", b"v")]}, Position())

    assert second.open(path).get_many("state", [b"k"]) == [b"v"]
    assert first.open(path).get_many("state", [b"k"]) == [b"v"]
    assert (first.asked, second.asked) == ([str(path)], [str(path)])


def test_one_who_asks_waits_until_the_holder_is_free(workers: tuple[Worker, Worker], tmp_path: Path) -> None:
    first, second = workers
    path = tmp_path / "state"
    first.open(path)
    first.willing.clear()
    opened = threading.Event()

    def ask() -> None:
        second.open(path)
        opened.set()

    asking = threading.Thread(target=ask)
    asking.start()

    assert not opened.wait(0.1)
    first.willing.set()
    assert opened.wait(10)
    asking.join()


def test_store_of_somebody_else_is_refused_after_the_deadline(workers: tuple[Worker, Worker], tmp_path: Path) -> None:
    path = tmp_path / "state"
    somebody = Store(path, ["state"])

    with pytest.raises(StoreLockedError, match="another living process"):
        workers[0].open(path, timeout_s=0.1)

    somebody.close()


def held_by(address: str, tmp_path: Path) -> list[Store]:
    stores = [Store(tmp_path / f"0_{number}" / "state", ["state"]) for number in range(2)]
    for store in stores:
        (store.path.parent / "state.holder").write_text(f"{address}\ni1\n")
    return stores


def test_holder_that_hears_no_question_is_not_waited_for_again(workers: tuple[Worker, Worker], tmp_path: Path) -> None:
    """As a process that is stopped, which its system still lets others connect to: it may hold many stores."""
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(tmp_path / "s"))
        stopped.listen()
        held = held_by(str(tmp_path / "s"), tmp_path)

        with pytest.raises(StoreLockedError):
            workers[0].open(held[0].path, timeout_s=1.0)
        began = time.monotonic()
        with pytest.raises(StoreLockedError):
            workers[0].open(held[1].path, timeout_s=3600.0)
        assert time.monotonic() - began < 1800

        held[1].close()
        assert workers[0].open(held[1].path).position is None
        held[0].close()


def test_holder_that_hears_and_is_slow_to_let_go_is_waited_for(workers: tuple[Worker, Worker], tmp_path: Path) -> None:
    first, second = workers
    held = held_by(first.handover.address, tmp_path)
    first.willing.clear()

    with pytest.raises(StoreLockedError):
        second.open(held[0].path, timeout_s=1.0)
    slow = threading.Timer(1.5, held[1].close)
    slow.start()

    assert second.open(held[1].path).position is None
    slow.join()
    first.willing.set()
    held[0].close()


def test_other_instance_with_the_same_state_folder_is_refused_and_the_holder_not_asked(
    workers: tuple[Worker, Worker], tmp_path: Path
) -> None:
    first, second = workers
    path = tmp_path / "0_0" / "state"
    first.open(path, instance="i1")

    with pytest.raises(StoreLockedError, match=r"held by the instance 'i1', and this is 'i2': .* folder of its own"):
        second.open(path, timeout_s=0.1, instance="i2")

    assert first.asked == []


def test_holder_that_is_gone_need_not_be_asked(workers: tuple[Worker, Worker], tmp_path: Path) -> None:
    path = tmp_path / "state"
    workers[0].open(path)
    workers[0].close()

    assert workers[1].open(path, timeout_s=5).position is None


def test_holder_that_let_go_meanwhile_is_no_hindrance(workers: tuple[Worker, Worker], tmp_path: Path) -> None:
    first, second = workers
    (tmp_path / "state.holder").write_text(first.handover.address)

    assert second.open(tmp_path / "state", timeout_s=5).position is None
    assert first.asked == []
