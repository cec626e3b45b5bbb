"""What holds for every DAG file, whatever it does."""

from __future__ import annotations

from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parents[2] / "dags").glob("*.py"))


@pytest.fixture(params=FILES, ids=[path.stem for path in FILES])
def dags(request: pytest.FixtureRequest) -> list[object]:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(request.param))
    assert not bag.import_errors
    return list(bag.dags.values())


def test_file_is_parsed_and_holds_a_dag(dags: list[object]) -> None:
    assert dags
