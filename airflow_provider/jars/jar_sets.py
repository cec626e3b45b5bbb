"""The jars that Spark needs to read Kafka, and those that a Kafka broker is made of.

`python -m airflow_provider.jars` resolves both into the user's cache, so that later runs need no network.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from airflow_provider.errors import StatefulStreamsError


class JavaError(StatefulStreamsError):
    """No Java was found, or one that is too old."""


class JarsError(StatefulStreamsError):
    """The jars of some coordinates could not be resolved."""


MINIMUM_JAVA = 17
"""What Spark 4 and Kafka 4 need."""

_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_HINT = f"Install a Java runtime >= {MINIMUM_JAVA} and put it on PATH, or name its folder in JAVA_HOME."


def find_java(java_home: str | None = None) -> Path:
    """Find a Java that is new enough.

    Args:
        java_home: the folder of a Java; None looks where spark-submit looks, `JAVA_HOME` and then `PATH`.

    Raises:
        JavaError: there is none, it does not run, or it is older than `MINIMUM_JAVA`.
    """
    home = java_home if java_home is not None else os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        place = f"in {home}/bin (JAVA_HOME)" if home else "on PATH"
        raise JavaError(f"Found no Java {place}. {_HINT}")
    banner = _banner(found)
    version = major_version(banner)
    if version is None:
        raise JavaError(f"{found} did not print a version, but: {banner.strip()[:200]!r}. {_HINT}")
    if version < MINIMUM_JAVA:
        raise JavaError(f"Found Java {version} at {found}, expected {MINIMUM_JAVA} or later. {_HINT}")
    return Path(found)


def major_version(banner: str) -> int | None:
    """Read the feature version out of what `java -version` prints; None where there is none.

    The old scheme is understood: `1.8.0_392` is 8.
    """
    match = _JAVA_VERSION.search(banner)
    return int(match[1]) if match else None


def _banner(java: str) -> str:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError(f"{java} does not run: {error}. {_HINT}") from error
    return done.stderr + done.stdout


# Maven Central alone. The default settings would also look into ~/.m2, where half-finished files are found.
_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir="${ivy.cache.dir}"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_CONTENTS = "contents.json"


@dataclass(frozen=True, slots=True, order=True)
class Coordinate:
    """A Maven artifact.

    Args:
        artifact: its artifact id, with the Scala version where it has one.
        transitive: whether what it needs at run time comes along.
    """

    group: str
    artifact: str
    version: str
    transitive: bool = False

    def __post_init__(self) -> None:
        for part in (self.group, self.artifact, self.version):
            if not _PART.fullmatch(part):
                raise JarsError(
                    f"Found {str(self)!r}, expected group:artifact:version of letters, digits, '.', '_' and '-'."
                )

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"

    @classmethod
    def parse(cls, text: str, *, transitive: bool = False) -> Coordinate:
        """Read `group:artifact:version`.

        Raises:
            JarsError: the text is something else.
        """
        parts = text.strip().split(":")
        if len(parts) != 3:
            raise JarsError(f"Found the coordinate {text!r}, expected group:artifact:version.")
        return cls(parts[0], parts[1], parts[2], transitive)

    def to_ivy(self) -> str:
        """As an element of an Ivy module file."""
        conf = "default-&gt;default,runtime" if self.transitive else "default-&gt;default"
        return (
            f'<dependency org="{self.group}" name="{self.artifact}" rev="{self.version}" '
            f'transitive="{str(self.transitive).lower()}" conf="{conf}"/>'
        )


def default_cache() -> Path:
    """The user's folder for what is resolved once: under `XDG_CACHE_HOME`, or `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "airflow-provider-stateful-streams"


def resolve(
    coordinates: Sequence[Coordinate],
    *,
    cache: Path | None = None,
    settings_file: Path | None = None,
    timeout_s: float = 600.0,
) -> tuple[Path, ...]:
    """Return the jars of the coordinates, sorted by name, from the cache where they were resolved before.

    A set that is in the cache costs no network and no Java. Several processes may resolve at once: one does the
    work, the others wait for it. A set appears in the cache complete or not at all.

    Args:
        coordinates: what to resolve; together they are one set, so that versions are settled between them.
        cache: where sets and Ivy's own files are kept; None is `default_cache()`.
        settings_file: Ivy settings in place of Maven Central, for a mirror; `${ivy.cache.dir}` is given to it.
        timeout_s: how long Ivy may take.

    Raises:
        JarsError: Ivy failed, with its last lines, or did not deliver a coordinate's jar.
        JavaError: there is no Java to run Ivy with.
    """
    root = (cache or default_cache()).absolute()
    target = root / "jars" / _digest(coordinates)
    jars = _complete(target)
    if jars is None:
        with _locked(root):
            jars = _complete(target)  # resolved while this process waited for the lock
            if jars is None:
                _retrieve(coordinates, target, root / "ivy", settings_file, timeout_s)
                jars = _complete(target)
    if not jars:
        raise JarsError(f"Found no jar for {_names(coordinates)} in {target}. Delete that folder and try again.")
    return jars


def ivy_jar() -> Path:
    """The Ivy in the installed pyspark.

    Raises:
        JarsError: pyspark is missing, or what is installed in its place carries no jars.
    """
    spec = importlib.util.find_spec("pyspark")  # finds without importing
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in folders:
        for jar in sorted(Path(folder).glob("jars/ivy-*.jar")):
            return jar
    raise JarsError(
        f"Found no jars/ivy-*.jar in pyspark ({folders or 'not installed'}), expected the full pyspark: "
        "pyspark-client owns the same folder and carries no jars. Install pyspark again, in the same version."
    )


def _digest(coordinates: Sequence[Coordinate]) -> str:
    lines = sorted(f"{coordinate} {coordinate.transitive}" for coordinate in coordinates)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _names(coordinates: Sequence[Coordinate]) -> str:
    return ", ".join(str(coordinate) for coordinate in coordinates)


def _complete(target: Path) -> tuple[Path, ...] | None:
    """Return the set's jars, or None when it is not there or lacks a part."""
    try:
        names: list[str] = json.loads((target / _CONTENTS).read_text(encoding="utf-8"))["jars"]
    except FileNotFoundError:
        return None
    jars = tuple(target / name for name in names)
    return jars if all(jar.is_file() for jar in jars) else None


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Hold the cache's lock. The system releases it when the holder ends, however that happens."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _retrieve(
    coordinates: Sequence[Coordinate], target: Path, ivy_cache: Path, settings_file: Path | None, timeout_s: float
) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".resolving-", dir=target.parent) as scratch_name:
        scratch = Path(scratch_name)
        output = scratch / "jars"
        output.mkdir()
        settings = settings_file or _write(scratch / "settings.xml", _SETTINGS)
        module = _write(scratch / "module.xml", _module(coordinates))
        command = [str(find_java()), "-Xmx256m", "-Djava.awt.headless=true", f"-Divy.cache.dir={ivy_cache}"]
        command += ["-cp", str(ivy_jar()), "org.apache.ivy.Main"]
        command += ["-settings", str(settings), "-ivy", str(module)]
        command += ["-retrieve", f"{output}/[artifact]-[revision].[ext]"]
        _run(command, coordinates, timeout_s)
        jars = sorted(path.name for path in output.glob("*.jar"))
        for coordinate in coordinates:
            if f"{coordinate.artifact}-{coordinate.version}.jar" not in jars:
                raise JarsError(f"Ivy delivered {jars}, expected the jar of {coordinate}: that artifact has none.")
        _write(output / _CONTENTS, json.dumps({"coordinates": [str(c) for c in coordinates], "jars": jars}))
        shutil.rmtree(target, ignore_errors=True)  # a set that lost a part
        output.rename(target)


def _run(command: list[str], coordinates: Sequence[Coordinate], timeout_s: float) -> None:
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise JarsError(
            f"Ivy did not resolve {_names(coordinates)} within {timeout_s:.0f} s. Is Maven Central reachable?"
        ) from error
    if done.returncode != 0:
        tail = "\n".join(done.stdout.strip().splitlines()[-25:])
        raise JarsError(
            f"Ivy could not resolve {_names(coordinates)} (status {done.returncode}). Check the coordinates and that "
            "Maven Central is reachable, or name a mirror in Ivy settings: spark.jars.ivySettings in an instance's "
            f"conf, or --ivy-settings of python -m airflow_provider.jars. Its last lines:\n{tail}"
        )


def _module(coordinates: Sequence[Coordinate]) -> str:
    dependencies = "\n    ".join(coordinate.to_ivy() for coordinate in coordinates)
    return f"""\
<ivy-module version="2.0">
  <info organisation="airflow-provider-stateful-streams" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    {dependencies}
  </dependencies>
</ivy-module>
"""


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


KAFKA_VERSION = "4.3.1"
"""The version of the kit's broker."""

# The binding lets the broker's slf4j 1.7 write through the log4j 2 that comes along; without it logs are lost.
_BROKER = (
    Coordinate("org.apache.kafka", "kafka_2.13", KAFKA_VERSION, transitive=True),
    Coordinate("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
)


def default_spark_coordinates(pyspark_version: str) -> tuple[str, ...]:
    """The Kafka connector of a pyspark and what it loads, each as `group:artifact:version`.

    The rest of the connector's dependencies (logging, compression) are in pyspark's own jars folder.
    """
    release = re.match(r"\d+\.\d+\.\d+", pyspark_version)
    return (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{release[0] if release else pyspark_version}",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
        # Delegation tokens only. Not every mirror has the later versions, and this one works with them.
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    )


def spark_kafka_jars(
    coordinates: Sequence[str] | None = None, *, cache: Path | None = None, settings_file: Path | None = None
) -> tuple[Path, ...]:
    """Return the jars to give to spark-submit's `--jars` for the Kafka source.

    Args:
        coordinates: `group:artifact:version` of each jar, taken as they are, without what they depend on. None
            follows the installed pyspark.

    Raises:
        JarsError: a coordinate is malformed or cannot be resolved.
        JavaError: they are not in the cache yet and there is no Java to resolve them with.
    """
    names = default_spark_coordinates(version("pyspark")) if coordinates is None else coordinates
    return resolve([Coordinate.parse(name) for name in names], cache=cache, settings_file=settings_file)


def kafka_broker_jars(*, cache: Path | None = None, settings_file: Path | None = None) -> tuple[Path, ...]:
    """Return the class path of a Kafka broker of `KAFKA_VERSION`.

    Raises:
        JarsError: they cannot be resolved.
        JavaError: they are not in the cache yet and there is no Java to resolve them with.
    """
    return resolve(_BROKER, cache=cache, settings_file=settings_file)
