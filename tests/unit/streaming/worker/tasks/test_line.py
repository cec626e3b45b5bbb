"""The line between a driver and a worker that stays."""

from __future__ import annotations

import contextlib
import os
import resource
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


def test_who_does_not_know_the_token_is_sent_away_and_holds_nobody_up(door: Door) -> None:
    at = door.address.host, door.address.port
    strangers = [socket.create_connection(at) for _ in range(3)]
    strangers[1].sendall(b"0" * 64)
    strangers[2].sendall(door.address.token[:32].encode())
    worker = call_driver(door.address)

    driver = door.admit(30)

    assert driver is not None
    worker.send(b"me")
    assert driver.receive() == b"me"
    for stranger in strangers:
        stranger.settimeout(30)
        with contextlib.suppress(ConnectionResetError):  # of what it had sent, some was not read
            assert stranger.recv(1) == b""
        stranger.close()


def test_worker_is_heard_beside_more_strangers_than_are_waited_for(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """No one of them is ever given up for being slow here."""
    monkeypatch.setattr(lines, "_SHOW_TOKEN_S", 3600.0)
    monkeypatch.setattr(lines, "_MOST_STRANGERS", 2)
    at = door.address.host, door.address.port
    before = [socket.create_connection(at) for _ in range(5)]
    worker = call_driver(door.address)
    after = [socket.create_connection(at)]

    driver = door.admit(30)

    assert driver is not None
    worker.send(b"me")
    assert driver.receive() == b"me"
    for stranger in before + after:
        stranger.close()


def test_who_shows_the_token_slowly_is_sent_away_in_the_end(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_SHOW_TOKEN_S", 0.05)
    with socket.create_connection((door.address.host, door.address.port)) as slow:
        slow.sendall(door.address.token[:1].encode())
        slow.settimeout(30)
        admitted = threading.Thread(target=door.admit, args=(30,))
        admitted.start()

        assert slow.recv(1) == b""
    door.close()
    admitted.join(30)


def test_line_is_waited_for_by_a_worker_that_has_a_thousand_files_open(door: Door) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        driver, worker = both_ends(door)
        assert worker.wait(0.0) is False
        driver.send(b"word")
        assert worker.wait(30.0) is True
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.skipif(not socket.has_ipv6, reason="this host has no IPv6")
def test_line_over_ipv6() -> None:
    try:
        door = Door("::1")
    except OSError as error:
        pytest.skip(f"this host has no IPv6: {error}")
    driver, worker = both_ends(door)
    worker.send(b"me")
    assert driver.receive() == b"me"
    door.close()


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
