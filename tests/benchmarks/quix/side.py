"""quixstreams' side of a comparison: the Python that has it, its changelog, a run of it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
from confluent_kafka import Producer

from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from tests.benchmarks.figures import Figures

__all__ = ["fill", "interpreter", "restore"]

_CHUNK = 50_000
_TIMEOUT_S = 1800.0


class _Times(msgspec.Struct):
    seconds: float
    cpu_seconds: float


def interpreter(named: str | None) -> str | None:
    """The Python to run it with: the one that was named, this one if it has it, or none."""
    if named is not None:
        return named
    return sys.executable if importlib.util.find_spec("quixstreams") else None


def fill(connection: KafkaConnection, group: str, source: str, records: int, keys: int, record_bytes: int) -> None:
    """Write a changelog in its format, under the name that it looks for.

    Without the header that carries the source's offsets: records without it are applied without a further check.
    """
    topic = f"changelog__{group}--{source}--default"
    config = {"cleanup.policy": "compact"}
    TopicAdmin(connection).ensure([TopicSpec(name=topic, partitions=1, config=config, required=frozenset())])
    producer = Producer(connection.to_client_config() | {"linger.ms": 50, "queue.buffering.max.messages": 4 * _CHUNK})
    random = np.random.default_rng(7)
    order = random.permutation(records) % keys
    for at in range(0, records, _CHUNK):
        filler = random.bytes(record_bytes)[: record_bytes - 28]
        for i, key in enumerate(order[at : at + _CHUNK]):
            value = b"%012d" % (at + i) + filler
            producer.produce(topic, value, b"key-%012d" % key, headers={"__column_family__": b"default"})
        producer.flush()


def restore(python: str, connection: KafkaConnection, group: str, source: str, folder: Path, records: int) -> Figures:
    """Restore `records` into an empty folder.

    Raises:
        RuntimeError: it failed; with its last lines.
    """
    script = Path(__file__).with_name("restore_once.py")
    command = [python, str(script), connection.bootstrap_servers, group, source, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise RuntimeError(f"quixstreams ended with {done.returncode}. Its last lines:\n{done.stderr[-2000:]}")
    times = msgspec.json.decode(lines[-1], type=_Times)
    return Figures(records, times.seconds, times.cpu_seconds)
