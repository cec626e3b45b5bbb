"""Try a job out: a Kafka broker on this machine, and records as lines of text.

`python -m airflow_provider.kit --topic orders:4` runs a broker until Ctrl-C or SIGTERM, with the topics that it is
given; with `--example` it has those of docs/first-job.md, and orders flow into one. `... produce TOPIC` writes a record
for each line of standard input, `key<TAB>JSON`, or with --raw any text as the value. `... consume TOPIC` prints the
committed records of a topic in the same form: those that are written from now on, or with --from-beginning all; with
--headers their headers, too. `... create NAME:PARTITIONS ...` adds topics to a running broker.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import signal
import sys
import threading
from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Final, Self

from airflow_provider.common.interruption import interruptible
from airflow_provider.errors import StatefulStreamsError, TopicMissingError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.kit.errors import BrokerFolderError, BrokerStartError, PortBusyError
from airflow_provider.kit.ports import LOOPBACK, free_ports
from airflow_provider.kit.records import consume, produce
from airflow_provider.kit.settings import BrokerSettings

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def topic_option(text: str) -> TopicSpec:
    """Read ``orders:4`` as topic ``orders`` with 4 partitions, and ``orders`` as one with 1.

    Raises:
        ArgumentTypeError: the text is something else.
    """
    name, colon, number = text.partition(":")
    if not _NAME.fullmatch(name) or (colon and not (number.isascii() and number.isdigit() and int(number) > 0)):
        raise ArgumentTypeError(
            f"found {text!r}, expected name:partitions, such as orders:4, with a name of letters, digits, '.', '_' "
            "and '-' and at least 1 partition"
        )
    return TopicSpec(name=name, partitions=int(number) if colon else 1, replication_factor=1, required=frozenset())


EXAMPLE_TOPICS: Final = (topic_option("orders:4"), topic_option("customer-totals-out:4"))
"""What the job of docs/first-job.md reads and writes."""

_CUSTOMERS: Final = ("ann", "bob", "cem", "dora", "eve", "finn", "gül", "hans")
_PAUSE_S: Final = 0.1


class OrdersInput:
    """Writes an order every tenth of a second into topic ``orders``, as a context manager."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write, name="orders", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, while the broker still serves."""
        self._ended.set()
        self._thread.join(_PAUSE_S + 10.0)

    def _write(self) -> None:
        produce(self._connection, EXAMPLE_TOPICS[0].name, self._lines())

    def _lines(self) -> Iterator[str]:
        for number in itertools.count():
            customer = _CUSTOMERS[number % len(_CUSTOMERS)]
            yield f"{customer}\t{json.dumps({'customer': customer, 'amount': 1.0})}"
            if self._ended.wait(_PAUSE_S):
                return


_PORT: Final = 9092
_FOLDER: Final = Path(".kit")
_START_S: Final = 60.0
_HINTS: Final[Mapping[type[StatefulStreamsError], str]] = {
    PortBusyError: " The option is --port.",
    BrokerFolderError: " The option is --dir.",
    TopicMissingError: " '{program} create NAME:PARTITIONS' creates one.",
}


def main(arguments: Sequence[str] | None = None, program: str = "python -m airflow_provider.kit") -> int:
    """Run one of the commands.

    Returns:
        0 when it ended as asked; 1 when it failed, with the reason on standard error; 130 when interrupted.
    """
    asked = _parser(program).parse_args(arguments)
    if asked.command is not None:
        asked.bootstrap_servers = asked.bootstrap_servers or f"{LOOPBACK}:{asked.port}"
    try:
        return {"produce": _produce, "consume": _consume, "create": _create}.get(asked.command, _serve)(asked)
    except KeyboardInterrupt:
        return 130
    except StatefulStreamsError as error:
        print(f"kit: {error}{_HINTS.get(type(error), '').format(program=program)}", file=sys.stderr)
        return 1


def _serve(asked: argparse.Namespace) -> int:
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    port, controller_port = free_ports(2)
    settings = BrokerSettings(
        directory=asked.dir, port=asked.port or port, controller_port=controller_port, die_with_parent=True
    )
    print(f"Starting Kafka in {asked.dir}; the first time its jars are fetched from Maven Central", flush=True)
    topics = [*asked.topics, *(EXAMPLE_TOPICS if asked.example else ())]
    with ExitStack() as running:  # what was entered last ends first
        broker = EmbeddedBroker(settings).start(asked.start_timeout)
        running.callback(broker.stop)
        connection = KafkaConnection(broker.bootstrap_servers)
        TopicAdmin(connection).ensure(topics)
        print(f"Kafka serves {broker.bootstrap_servers}; its log is {broker.log_file}", flush=True)
        for spec in topics:
            print(f"Topic {spec.name}, partitions: {spec.partitions}", flush=True)
        if asked.example:
            running.enter_context(OrdersInput(connection))
            print(f"Orders flow into topic {EXAMPLE_TOPICS[0].name}, ten a second", flush=True)
        print(f"Ctrl-C ends it; its data stays in {asked.dir}", flush=True)
        while not ended.wait(timeout=1.0):
            if not broker.is_running:
                raise BrokerStartError(f"The broker ended by itself. Its last lines:\n{broker.folder.last_lines()}")
    return 0


def _create(asked: argparse.Namespace) -> int:
    created = TopicAdmin(KafkaConnection(asked.bootstrap_servers)).ensure(asked.topics)
    for topic in asked.topics:
        print(
            f"Topic {topic.name}, partitions: {topic.partitions}{'' if topic.name in created else ', was there before'}"
        )
    return 0


def _produce(asked: argparse.Namespace) -> int:
    written = produce(KafkaConnection(asked.bootstrap_servers), asked.topic, sys.stdin, raw=asked.raw)
    print(f"Wrote {written} records to topic {asked.topic}", file=sys.stderr)
    return 0


def _consume(asked: argparse.Namespace) -> int:
    def at_end() -> None:
        earlier = "" if asked.from_beginning else "; --from-beginning prints those that are there, too"
        print(f"At the end of topic {asked.topic}, waiting for new records{earlier}", file=sys.stderr, flush=True)

    records = consume(
        KafkaConnection(asked.bootstrap_servers),
        asked.topic,
        from_beginning=asked.from_beginning,
        timeout_s=asked.timeout,
        at_end=at_end,
    )
    try:
        with interruptible(signal.SIGINT):
            for record in islice(records, asked.count):
                print(record.to_line(headers=asked.headers), flush=True)
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:  # the reader of the lines has ended, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dir", type=Path, default=_FOLDER, help="the broker's folder, kept (default: %(default)s)")
    parser.add_argument("--port", type=int, default=_PORT, help="port for clients; 0: a free one (%(default)s)")
    parser.add_argument(
        "--topic",
        dest="topics",
        type=topic_option,
        action="append",
        default=[],
        metavar="NAME:PARTITIONS",
        help="a topic to create; may be repeated",
    )
    parser.add_argument(
        "--example", action="store_true", help="create orders:4 and customer-totals-out:4, and write orders"
    )
    parser.add_argument(
        "--start-timeout", type=float, default=_START_S, metavar="SECONDS", help="for its start (%(default)g)"
    )
    commands = parser.add_subparsers(
        dest="command", metavar="create|produce|consume", title="commands for a running broker"
    )
    cluster = argparse.ArgumentParser(add_help=False)
    # Before the command or after it; not to be set here where it is given there.
    cluster.add_argument("--port", type=int, default=argparse.SUPPRESS, help="as before the command")
    cluster.add_argument("--bootstrap-servers", help=f"the broker ({LOOPBACK} and --port, so {LOOPBACK}:{_PORT})")
    shared = argparse.ArgumentParser(add_help=False, parents=[cluster])
    shared.add_argument("topic", metavar="TOPIC", help="an existing topic")
    creating = commands.add_parser("create", parents=[cluster], help="add topics")
    creating.add_argument("topics", nargs="+", type=topic_option, metavar="NAME:PARTITIONS", help="a topic")
    writing = commands.add_parser("produce", parents=[shared], help="write a record for each line of standard input")
    writing.add_argument("--raw", action="store_true", help="take any text as a value, also what is no JSON")
    reading = commands.add_parser("consume", parents=[shared], help="print committed records until Ctrl-C")
    reading.add_argument("--from-beginning", action="store_true", help="begin with the oldest records, not at the end")
    reading.add_argument("--headers", action="store_true", help="print a tab and each record's headers, as JSON, too")
    reading.add_argument("--count", type=int, help="end after this many records")
    reading.add_argument("--timeout", type=float, metavar="SECONDS", help="end when no record came for this long")
    return parser


if __name__ == "__main__":
    sys.exit(main())
