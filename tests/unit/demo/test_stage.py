from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.dag_processing.dagbag import DagBag

from airflow_provider.demo import run
from airflow_provider.demo.stage import dag_file


def test_demo_finds_the_dags_that_it_runs(tmp_path: Path) -> None:
    file = tmp_path / "flights_dags.py"
    file.write_text(
        dag_file(
            application_id=run.APPLICATION,
            job=tmp_path / "o'job.py",
            instances=run.INSTANCES,
            state_dir=tmp_path / "state",
            run_dir=tmp_path / "run",
            conf={"spark.driver.memory": "512m"},
        )
    )

    bag = DagBag(str(file))

    assert not bag.import_errors
    assert {run.DEPLOY, run.FAILOVER, run.REPAIR, run.DRILL} <= set(bag.dags)
    deploy: Any = bag.dags[run.DEPLOY].get_task("deploy_i2")
    assert deploy.application == str(tmp_path / "o'job.py")
    assert deploy.state_dir == str(tmp_path / "state" / "i2")
