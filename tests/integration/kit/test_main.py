"""The kit's commands, as a user types them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from confluent_kafka import Producer

pytestmark = pytest.mark.xdist_group("kit")

KIT = [sys.executable, "-m", "airflow_provider.kit"]
LINES = 'ada\t{"amount": 5}\nbob\t{"amount": 7}\nada\t{"amount": 9}\n{"amount": 1}\nbob\t\n'


def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([*KIT, *arguments], input=text, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a broker that the command started, with topic orders."""
    folder = tmp_path_factory.mktemp("kit") / "kafka"
    command = [*KIT, "--dir", str(folder), "--port", "0", "--example", "--topic", "words:4", "--topic", "totals"]
    serving = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert serving.stdout is not None
    said: list[str] = []
    while not (said and said[-1].startswith("Ctrl-C")):
        line = serving.stdout.readline()
        assert line, said
        said.append(line.strip())
    assert {"Topic words, partitions: 4", "Topic totals, partitions: 1"} <= set(said)
    yield next(line.split()[2].rstrip(";") for line in said if line.startswith("Kafka serves"))
    serving.send_signal(signal.SIGINT)
    serving.communicate(timeout=60)
    assert serving.returncode == 0


def test_lines_that_were_produced_are_consumed(address: str) -> None:
    wrote = run("produce", "words", "--bootstrap-servers", address, text=LINES)
    assert (wrote.returncode, wrote.stderr) == (0, "Wrote 5 records to topic words\n")

    read = run("consume", "words", "--bootstrap-servers", address, "--from-beginning", "--count", "5")

    assert read.returncode == 0, read.stderr
    lines = read.stdout.splitlines()
    assert sorted(lines) == sorted(LINES.splitlines())
    assert [line for line in lines if line.startswith("bob")] == ['bob\t{"amount": 7}', "bob\t"]


def test_reader_is_told_that_it_waits_at_the_end_and_how_to_see_what_is_there(address: str) -> None:
    run("produce", "words", "--bootstrap-servers", address, text=LINES)

    at = ("consume", "words", "--bootstrap-servers", address, "--timeout", "5")
    from_end, from_beginning = run(*at), run(*at, "--from-beginning")

    waits = "At the end of topic words, waiting for new records"
    assert (from_end.stdout, from_end.stderr) == ("", f"{waits}; --from-beginning prints those that are there, too\n")
    assert (from_beginning.stdout.count("\n") >= 5, from_beginning.stderr) == (True, f"{waits}\n")


def test_aborted_records_are_not_consumed(address: str) -> None:
    producer = Producer({"bootstrap.servers": address, "transactional.id": "writer"})
    producer.init_transactions(30)
    for value, committed in ((b"1", True), (b"2", False), (b"3", True)):
        producer.begin_transaction()
        producer.produce("totals", value)
        producer.flush(30)
        if committed:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)

    read = run("consume", "totals", "--bootstrap-servers", address, "--from-beginning", "--timeout", "5")

    assert read.stdout.splitlines() == ["1", "3"]


def test_wrong_line_and_missing_topic_end_with_one_message(address: str) -> None:
    wrong = run("produce", "words", "--bootstrap-servers", address, text="ada\tfive\n")
    missing = run("consume", "absent", "--bootstrap-servers", address)

    assert (wrong.returncode, missing.returncode) == (1, 1)
    assert wrong.stderr.startswith("kit: Line 1 is not a record")
    assert "Topic 'absent' does not exist" in missing.stderr


def test_wrong_topic_option_starts_nothing(tmp_path: Path) -> None:
    refused = run("--dir", str(tmp_path / "kafka"), "--topic", "orders:four")

    assert refused.returncode == 2
    assert "expected name:partitions" in refused.stderr
    assert not (tmp_path / "kafka").exists()


def test_example_has_its_topics_and_its_input(address: str) -> None:
    options = ("--bootstrap-servers", address, "--from-beginning", "--timeout", "60")
    reading = subprocess.Popen([*KIT, "consume", "orders", *options], stdout=subprocess.PIPE, text=True)
    assert reading.stdout is not None
    # Orders flow as long as the broker runs, and partitions come in any order.
    lines = set()
    for line in islice(reading.stdout, 500):
        lines.add(line.rstrip("\n"))
        if 'ann\t{"customer": "ann", "amount": 1.0}' in lines and len(lines) > 1:
            break
    else:
        pytest.fail(f"no order of ann among {lines}")
    reading.send_signal(signal.SIGINT)
    reading.communicate(timeout=60)
    assert reading.returncode == 0

    written = run("consume", "customer-totals-out", "--bootstrap-servers", address, "--timeout", "1")
    assert (written.returncode, written.stdout) == (0, "")


def test_record_that_no_job_can_read_is_written_and_headers_are_shown(address: str) -> None:
    at = ("customer-totals-out", "--bootstrap-servers", address)
    assert run("produce", *at, "--raw", text="ada\t{no json\n").returncode == 0
    producer = Producer({"bootstrap.servers": address})
    producer.produce("customer-totals-out", "1", "bob", headers=[("why", "because"), ("code", b"\xff")])
    assert producer.flush(30) == 0

    read = run("consume", *at, "--from-beginning", "--count", "2", "--headers")

    shown = ["ada\t{no json\t{}", 'bob\t1\t{"why": "because", "code": "\\\\xff"}']
    assert sorted(read.stdout.splitlines()) == shown
