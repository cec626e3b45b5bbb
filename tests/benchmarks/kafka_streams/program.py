"""The Java program beside this file: its jars, its compilation, a run of it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from airflow_provider.jars.jar_sets import Coordinate, find_java, resolve
from airflow_provider.kafka.connection import KafkaConnection
from tests.benchmarks.figures import Figures

__all__ = ["Program", "Started", "compiled", "kafka_streams_jars"]

_STREAMS = Coordinate("org.apache.kafka", "kafka-streams", "4.3.1", transitive=True)
_TIMEOUT_S = 900.0
_STOP_S = 60.0
_LOG_LINES = 15


def kafka_streams_jars() -> tuple[Path, ...]:
    """Kafka Streams with what it needs: its clients, RocksDB, Jackson."""
    return resolve([_STREAMS])


@dataclass(frozen=True)
class Started:
    """A JVM that runs."""

    name: str
    process: subprocess.Popen[bytes]

    def cpu_seconds(self) -> float:
        """What it has used until now."""
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system

    def check(self) -> None:
        """Raises RuntimeError where it has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended with {self.process.returncode}")


@dataclass(frozen=True)
class Program:
    """The compiled program.

    Args:
        java: the Java runtime.
        class_path: its classes and jars.
    """

    java: Path
    class_path: str

    @classmethod
    def compile(cls, folder: Path) -> Program:
        """Compile into `folder`.

        Raises:
            SystemExit: there is no Java compiler, or it refused the program.
        """
        return compiled(Path(__file__).parent, kafka_streams_jars(), folder)

    @contextlib.contextmanager
    def started(
        self,
        name: str,
        application_id: str,
        connection: KafkaConnection,
        state: Path,
        threads: int,
        arguments: Mapping[str, object],
        *,
        heap: str = "2g",
    ) -> Iterator[Started]:
        """The class `name` in a JVM that runs until it is left, and is then told to end; what it says is ours to see.

        Args:
            state: the folder of its stores.
            threads: of its streams.
            arguments: the class's own, and more settings of Kafka Streams than those that say where, and exactly-once.
            heap: the largest heap.
        """
        given = {
            "application.id": application_id,
            "bootstrap.servers": connection.bootstrap_servers,
            "processing.guarantee": "exactly_once_v2",
            "state.dir": str(state),
            "num.stream.threads": threads,
            "auto.offset.reset": "earliest",
            **arguments,
        }
        command = [str(self.java), f"-Xmx{heap}", "-cp", self.class_path, name]
        process = subprocess.Popen([*command, *(f"{key}={value}" for key, value in given.items())])
        try:
            yield Started(f"Kafka Streams' {name}", process)
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def run(self, name: str, arguments: Mapping[str, object], *, heap: str = "2g") -> Figures:
        """Run the class `name` in a JVM of its own, as a deployment does, to its end.

        Args:
            arguments: the class's own, and settings of Kafka Streams.
            heap: the largest heap.

        Raises:
            RuntimeError: it failed or did not end; with its last lines.
        """
        command = [str(self.java), f"-Xmx{heap}", "-cp", self.class_path, name]
        done = subprocess.run(
            [*command, *(f"{key}={value}" for key, value in arguments.items())],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            tail = "\n".join(done.stderr.strip().splitlines()[-_LOG_LINES:])
            raise RuntimeError(f"Kafka Streams' {name} ended with {done.returncode}. Its last lines:\n{tail}")
        return msgspec.json.decode(done.stdout.strip().splitlines()[-1], type=Figures)


def compiled(sources: Path, jars: Sequence[Path], folder: Path) -> Program:
    """A folder's Java sources, compiled into another.

    Raises:
        SystemExit: there is no Java compiler, or it refused them.
    """
    java = find_java()
    javac = next((path for path in (java, java.resolve()) if path.with_name("javac").is_file()), None)
    if javac is None:
        raise SystemExit(f"Found no javac beside {java}: the other side of a comparison needs a JDK, not only a JRE.")
    class_path = ":".join(map(str, jars))
    done = subprocess.run(
        [
            *(str(javac.with_name("javac")), "-Xlint:all,-processing,-path", "-d", str(folder), "-cp", class_path),
            *map(str, sorted(sources.glob("*.java"))),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"javac refused the program:\n{done.stderr}")
    return Program(java, f"{folder}:{class_path}")
