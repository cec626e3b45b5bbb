"""What a program of Kafka Streams' TopologyTestDriver makes of cases: one partition, no broker."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_provider.jars.jar_sets import Coordinate, find_java, resolve

_PROGRAMS: Final = Path(__file__).parent / "kafka_streams"
_TEST_DRIVER: Final = Coordinate("org.apache.kafka", "kafka-streams-test-utils", "4.3.1", transitive=True)


def kafka_streams_answers(program: str, cases: Sequence[Mapping[str, Any]], folder: Path) -> list[Any]:
    """Of each case, what the program says; its file says what a case and an answer are.

    Args:
        program: the name of its file.
        cases: what it gets.
        folder: for its files and its stores.
    """
    java = find_java()
    if not any(path.with_name("javac").is_file() for path in (java, java.resolve())):
        pytest.skip("Kafka Streams' side is compiled: needs a JDK")
    given, answers = folder / "cases.json", folder / "answers.json"
    given.write_text(json.dumps(list(cases)))
    jars = ":".join(map(str, resolve([_TEST_DRIVER])))
    # Its stores lie in Java's folder for temporary files, where another run's of the same name would be found.
    command = [str(java), f"-Djava.io.tmpdir={folder}", "-cp", jars, str(_PROGRAMS / program), str(given), str(answers)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[Any] = json.loads(answers.read_text())
    return found
