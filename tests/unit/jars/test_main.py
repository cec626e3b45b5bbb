from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider.jars import __main__ as command
from airflow_provider.jars.jar_sets import JarsError


def test_both_sets_are_resolved_with_the_mirror(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mirrors: list[Path | None] = []

    def jar_set(*, settings_file: Path | None = None) -> tuple[Path, ...]:
        mirrors.append(settings_file)
        return (Path("/cache/set/a.jar"),)

    monkeypatch.setattr(command, "spark_kafka_jars", jar_set)
    monkeypatch.setattr(command, "kafka_broker_jars", jar_set)

    assert command.main(["--ivy-settings", "/m.xml"]) == 0

    assert mirrors == [Path("/m.xml")] * 2
    assert capsys.readouterr().out.count("1 jars in /cache/set") == 2


def test_failure_is_one_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def jar_set(*, settings_file: Path | None = None) -> tuple[Path, ...]:
        raise JarsError("Central is away")

    monkeypatch.setattr(command, "spark_kafka_jars", jar_set)

    assert command.main([]) == 1
    assert capsys.readouterr().err == "jars: Central is away\n"
