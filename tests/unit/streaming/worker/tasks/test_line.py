"""The line between a driver and a worker that stays."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from airflow_provider.streaming.worker.tasks import line as lines
from airflow_provider.streaming.worker.tasks.line import Door, Line, LineLostError, call_driver


@pytest.fixture
def door() -> Iterator[Door]:
    door = Door.local()
    yield door
    door.close()


def both_ends(door: Door) -> tuple[Line, Line]:
    worker = call_driver(door.address)
    driver = door.admit(30)
    assert driver is not None
    return driver, worker


def test_words_go_both_ways_whole_and_in_their_order(door: Door) -> None:
    driver, worker = both_ends(door)
    large = os.urandom(1 << 20)

    def send_all() -> None:
        for word in (b"one", large, b""):
            driver.send(word)

    sender = threading.Thread(target=send_all)
    sender.start()

    assert [worker.receive() for _ in range(3)] == [b"one", large, b""]
    sender.join(30)
    worker.send(b"answer")
    assert driver.receive() == b"answer"


def test_wait_ends_with_a_word_or_with_what_else_it_waits_for(door: Door) -> None:
    driver, worker = both_ends(door)
    reads, writes = os.pipe()

    assert worker.wait(0.0, [reads]) is False
    os.write(writes, b"1")
    assert worker.wait(30.0, [reads]) is False, "a record came, no word"
    driver.send(b"word")
    assert worker.wait(30.0, [reads]) is True
    os.close(reads)
    os.close(writes)


def test_other_end_that_is_gone_is_said_whatever_is_tried(door: Door) -> None:
    driver, worker = both_ends(door)
    worker.close()
    worker.close()

    with pytest.raises(LineLostError):
        driver.receive()
    with pytest.raises(LineLostError):
        worker.send(b"word")
    with pytest.raises(LineLostError):
        worker.wait(0.0)


def test_who_does_not_know_the_token_is_sent_away_and_holds_nobody_up(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_SHOW_TOKEN_S", 0.1)
    at = door.address.host, door.address.port
    silent, wrong = socket.create_connection(at), socket.create_connection(at)
    wrong.sendall(b"0" * 64)
    worker = call_driver(door.address)

    driver = door.admit(30)

    assert driver is not None
    worker.send(b"me")
    assert driver.receive() == b"me"
    for stranger in (silent, wrong):
        stranger.settimeout(30)
        assert stranger.recv(1) == b""
        stranger.close()


def test_door_that_is_closed_lets_go_who_waits_behind_it(door: Door) -> None:
    admitted: list[Line | None] = []
    waiting = threading.Thread(target=lambda: admitted.append(door.admit(600)))
    waiting.start()

    door.close()
    waiting.join(30)

    assert admitted == [None]
    with pytest.raises(OSError, match="refused"):
        call_driver(door.address)


def test_nobody_comes_in_time(door: Door) -> None:
    assert door.admit(0.01) is None


def test_token_is_another_each_time(door: Door) -> None:
    other = Door.local()
    assert replace(other.address, port=0) != replace(door.address, port=0)
    assert len(door.address.token) == 64
    other.close()
