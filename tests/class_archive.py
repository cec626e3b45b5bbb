"""Archives of the classes that a Spark and a broker load, so that a JVM of a test starts with half the work.

`python -m tests.class_archive` makes those that are missing, in the virtual environment, in about a minute. They are
of one Java and one set of jars (https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html); a JVM that one
does not fit goes on without it and in silence.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from airflow_provider.jars.jar_sets import KAFKA_VERSION, find_java
from airflow_provider.kit.broker import EmbeddedBroker
from airflow_provider.kit.settings import BrokerSettings

_SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
_QUERY = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.range(9).selectExpr("id % 2 AS k", "to_json(struct(id)) AS v").groupBy("k").count().collect()
query = spark.readStream.format("rate").load().writeStream.foreachBatch(lambda rows, _: rows.count()).start()
query.awaitTermination(6)
query.stop()
spark.stop()
"""


def java_options(name: str) -> tuple[str, ...]:
    """To start a JVM with the archive `spark` or `broker`; none where it was not made."""
    file = _file(name)
    return (f"-XX:SharedArchiveFile={file}", *_SILENT) if file.exists() else ()


def _file(name: str) -> Path:
    of = f"{os.environ.get('JAVA_HOME')} {version('pyspark')} {KAFKA_VERSION}"
    return Path(sys.prefix) / f"{name}-{zlib.crc32(of.encode()):08x}.jsa"


def _make_broker(option: str, folder: Path) -> None:
    settings = BrokerSettings.on_free_ports(folder / "kafka", die_with_parent=True, java_options=(option,))
    with EmbeddedBroker(settings) as broker:
        broker.stop(120.0)


def _make_spark(option: str, folder: Path) -> None:
    job = folder / "query.py"
    job.write_text(_QUERY)
    submit = [str(Path(sys.executable).parent / "spark-submit"), "--master", "local[1]"]
    confs = ("spark.ui.enabled=false", f"spark.driver.extraJavaOptions=-XX:+UseSerialGC {option}")
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    command = [*submit, *(word for conf in confs for word in ("--conf", conf)), str(job)]
    subprocess.run(command, env=environment, cwd=folder, capture_output=True, check=True)


_MAKE: dict[str, Callable[[str, Path], None]] = {"broker": _make_broker, "spark": _make_spark}


def main() -> None:
    find_java()
    for name, make in _MAKE.items():
        file = _file(name)
        if not file.exists():
            print(f"Classes of a {name}, for tests: into {file} (half a minute)", flush=True)
            with tempfile.TemporaryDirectory() as folder:
                fresh = file.with_suffix(f".{os.getpid()}")
                make(f"-XX:ArchiveClassesAtExit={fresh}", Path(folder))
                fresh.replace(file)


if __name__ == "__main__":
    main()
