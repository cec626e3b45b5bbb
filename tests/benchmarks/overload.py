"""Instances that get a sliver of a core, under load: failovers of tasks that stand still slow down and end.

The JVM of each of two instances is stopped whenever it has used more than its share of a core, whatever else the
machine does; their drivers go on, so heartbeats come. A watcher and the operators of the failover and of the repair
answer, as their DAGs do. Once no failover follows any more, the hosts get their cores back, and the judge of the chaos
runs looks at every record. With the pauses of production it takes half an hour.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import pytest

from airflow_provider.control.failover import pace
from tests.airflow_home import use_temporary_airflow_home
from tests.benchmarks.cluster import broker


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=0.02, help="of a core, for each JVM")
    parser.add_argument("--pause", type=float, default=120.0, help="seconds after the first failover; then twice that")
    options = parser.parse_args()
    # Before anything imports Airflow.
    use_temporary_airflow_home()
    from tests.integration.airflow import overloaded_host
    from tests.integration.airflow.deployed_ledger import on_broker
    from tests.integration.airflow.placed_hosts import OnWorkers

    pace._FIRST_PAUSE_MS = round(1000 * options.pause)  # type: ignore[misc]  # noqa: SLF001
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as environment:
        folder = Path(name)
        with broker(folder / "kafka") as connection:
            ledger = on_broker(OnWorkers, folder, environment, connection, connection)
            try:
                overloaded_host.storm(ledger, options.share)
            finally:
                ledger.close()


if __name__ == "__main__":
    main()
