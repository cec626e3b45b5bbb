from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider.jars.java import JavaError, find_java, major_version


def fake_java(home: Path, version_line: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("banner", "expected"),
    [
        pytest.param('openjdk version "17.0.15" 2025-04-15', 17, id="openjdk"),
        pytest.param('openjdk version "21" 2023-09-19', 21, id="first release"),
        pytest.param('java version "1.8.0_392"', 8, id="old scheme"),
        pytest.param('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.1"', 17, id="after a notice"),
        pytest.param('openjdk version "26-ea" 2026-03-17', 26, id="early access"),
        pytest.param("The operation couldn't be completed.", None, id="no java behind the name"),
    ],
)
def test_version_is_read_from_the_banner(banner: str, expected: int | None) -> None:
    assert major_version(banner) == expected


def test_java_home_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = fake_java(tmp_path / "named", 'openjdk version "21.0.1"')
    on_path = fake_java(tmp_path / "on_path", 'openjdk version "17.0.1"')
    monkeypatch.setenv("PATH", f"{on_path.parent}:/usr/bin:/bin")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "named"))

    assert find_java() == named

    monkeypatch.delenv("JAVA_HOME")
    assert find_java() == on_path


@pytest.mark.parametrize(
    ("version_line", "message"),
    [
        pytest.param('java version "1.8.0_392"', "Found Java 8 at .*, expected 17 or later", id="too old"),
        pytest.param("no runtime present", "did not print a version", id="a stub"),
    ],
)
def test_unfit_java_is_refused_with_what_to_do(tmp_path: Path, version_line: str, message: str) -> None:
    fake_java(tmp_path, version_line)

    with pytest.raises(JavaError, match=message) as caught:
        find_java(str(tmp_path))
    assert "JAVA_HOME" in str(caught.value)


def test_missing_java_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(JavaError, match="Found no Java on PATH"):
        find_java()
