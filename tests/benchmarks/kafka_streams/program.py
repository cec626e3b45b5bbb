"""The Java program beside this file: its jars, its compilation, a run of it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from airflow_provider.jars.jar_sets import Coordinate, find_java, resolve
from tests.benchmarks.figures import Figures

__all__ = ["Program", "kafka_streams_jars"]

_STREAMS = Coordinate("org.apache.kafka", "kafka-streams", "4.3.1", transitive=True)
_TIMEOUT_S = 900.0
_STOP_S = 60.0
_LOG_LINES = 15


def kafka_streams_jars() -> tuple[Path, ...]:
    """Kafka Streams with what it needs: its clients, RocksDB, Jackson."""
    return resolve([_STREAMS])


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
        java = find_java()
        javac = next((path for path in (java, java.resolve()) if path.with_name("javac").is_file()), None)
        if javac is None:
            raise SystemExit(f"Found no javac beside {java}: Kafka Streams' side needs a JDK, not only a JRE.")
        jars = ":".join(map(str, kafka_streams_jars()))
        sources = map(str, sorted(Path(__file__).parent.glob("*.java")))
        done = subprocess.run(
            [str(javac.with_name("javac")), "-Xlint:all,-processing", "-d", str(folder), "-cp", jars, *sources],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"javac refused the program:\n{done.stderr}")
        return cls(java, f"{folder}:{jars}")

    @contextlib.contextmanager
    def started(
        self, name: str, arguments: Mapping[str, object], *, heap: str = "2g"
    ) -> Iterator[subprocess.Popen[bytes]]:
        """The same in a JVM that runs until it is left, and is then told to end; what it says is ours to see."""
        command = [str(self.java), f"-Xmx{heap}", "-cp", self.class_path, name]
        process = subprocess.Popen([*command, *(f"{key}={value}" for key, value in arguments.items())])
        try:
            yield process
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
