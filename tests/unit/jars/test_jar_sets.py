from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_provider.jars.jar_sets import (
    Coordinate,
    JarsError,
    JavaError,
    default_cache,
    default_spark_coordinates,
    find_java,
    ivy_jar,
    major_version,
    resolve,
)


def test_connector_follows_pyspark() -> None:
    assert default_spark_coordinates("4.3.0")[0] == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0"


def test_connector_of_a_development_version_is_its_release() -> None:
    assert default_spark_coordinates("4.2.0.dev3")[0] == "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"


A = Coordinate("org.example", "a_2.13", "1.0.0")
B = Coordinate("org.example", "b", "2.0", transitive=True)

# Stands for `java ... org.apache.ivy.Main ... -retrieve PATTERN`: makes the jars that it was asked to make.
FAKE = """\
#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17.0.1"' >&2; exit; fi
for pattern; do :; done
echo run >> {home}/runs
for jar in {jars}; do echo jar > "$(dirname "$pattern")/$jar"; done
echo 'the last line'
exit {status}
"""


class FakeJava:
    """A Java that counts its runs."""

    def __init__(self, home: Path, jars: str = "a_2.13-1.0.0.jar b-2.0.jar c-3.jar", status: int = 0) -> None:
        self._home = home
        java = home / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(FAKE.format(home=home, jars=jars, status=status), encoding="utf-8")
        java.chmod(0o755)

    @property
    def runs(self) -> int:
        runs = self._home / "runs"
        return len(runs.read_text(encoding="utf-8").split()) if runs.exists() else 0


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "java"
    monkeypatch.setenv("JAVA_HOME", str(home))
    return home


def test_coordinate_is_read_and_written() -> None:
    assert Coordinate.parse(" org.example:a_2.13:1.0.0 ") == A
    assert str(A) == "org.example:a_2.13:1.0.0"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("org.example:a", id="no version"),
        pytest.param("org.example:a:1:jar", id="too many parts"),
        pytest.param("org.example::1", id="an empty part"),
        pytest.param('org.example:a:1"/><x y="', id="markup"),
    ],
)
def test_malformed_coordinate_is_refused(text: str) -> None:
    with pytest.raises(JarsError, match="expected group:artifact:version"):
        Coordinate.parse(text)


def test_only_a_transitive_coordinate_brings_what_it_needs() -> None:
    assert 'transitive="false"' in A.to_ivy()
    assert 'transitive="true"' in B.to_ivy()
    assert "runtime" in B.to_ivy()


def test_set_is_resolved_once(java_home: Path, tmp_path: Path) -> None:
    java = FakeJava(java_home)

    first = resolve([A, B], cache=tmp_path / "cache")
    second = resolve([B, A], cache=tmp_path / "cache")

    assert [jar.name for jar in first] == ["a_2.13-1.0.0.jar", "b-2.0.jar", "c-3.jar"]
    assert second == first
    assert java.runs == 1


def test_another_set_is_resolved_by_itself(java_home: Path, tmp_path: Path) -> None:
    java = FakeJava(java_home)

    assert resolve([A], cache=tmp_path / "cache") != resolve([A, B], cache=tmp_path / "cache")
    assert java.runs == 2


def test_those_who_resolve_at_once_wait_for_one(java_home: Path, tmp_path: Path) -> None:
    java = FakeJava(java_home)
    script = (
        "import sys, pathlib; from airflow_provider.jars.jar_sets import Coordinate, resolve; "
        "print(len(resolve([Coordinate.parse(sys.argv[1])], cache=pathlib.Path(sys.argv[2]))))"
    )

    def run(_: int) -> str:
        command = [sys.executable, "-c", script, str(A), str(tmp_path / "cache")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(run, range(4)))

    assert counts == ["3"] * 4
    assert java.runs == 1


def test_set_that_lost_a_jar_is_resolved_again(java_home: Path, tmp_path: Path) -> None:
    java = FakeJava(java_home)
    jars = resolve([A], cache=tmp_path / "cache")
    jars[0].unlink()

    assert resolve([A], cache=tmp_path / "cache") == jars
    assert jars[0].is_file()
    assert java.runs == 2


def test_failed_run_leaves_no_set_and_reports_the_last_lines(java_home: Path, tmp_path: Path) -> None:
    FakeJava(java_home, status=1)

    with pytest.raises(JarsError, match=re.escape(f"could not resolve {A}")) as caught:
        resolve([A], cache=tmp_path / "cache")

    assert "the last line" in str(caught.value)
    assert list((tmp_path / "cache" / "jars").iterdir()) == []


def test_coordinate_without_its_jar_is_reported(java_home: Path, tmp_path: Path) -> None:
    FakeJava(java_home, jars="other-1.jar")

    with pytest.raises(JarsError, match=re.escape(f"expected the jar of {A}")):
        resolve([A], cache=tmp_path / "cache")


def test_cache_follows_the_users_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache().parent == tmp_path

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache().parent == tmp_path / ".cache"


def test_ivy_is_found_in_pyspark() -> None:
    assert ivy_jar().is_file()


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
