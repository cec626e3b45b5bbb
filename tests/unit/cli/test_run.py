from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.cli.instance import LogFollower
from airflow_provider.cli.run import add_run, application_of, deployment_of
from airflow_provider.errors import ConfigurationError


@pytest.fixture
def job(tmp_path: Path) -> Path:
    file = tmp_path / "job.py"
    file.write_text("job = StatefulJob('orders')\n")
    return file


def asked(*arguments: Any) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_run(parser.add_subparsers())
    return parser.parse_args(["run", *map(str, arguments)])


def test_deployment_is_as_the_arguments_say(job: Path) -> None:
    given = asked(job, "--instance", "a", "--conf", "spark.x=1=2", "--env", "DAY=", "--arg=--fast", "--arg", "now")

    deployment = deployment_of(given)

    assert (deployment.application_id, deployment.instance, deployment.application) == ("orders", "a", str(job))
    assert (deployment.conf, deployment.env_vars) == ({"spark.x": "1=2"}, {"DAY": ""})
    assert deployment.application_args == ("--fast", "now")
    assert deployment.state_dir == "/var/lib/stateful-streams/a"
    assert deployment.job_sha256


@pytest.mark.parametrize(
    ("text", "known"),
    [
        pytest.param("import os\njob = StatefulJob(os.environ['ID'])", "none", id="not-literal"),
        pytest.param("a, b = StatefulJob('orders'), StatefulJob('sales')", "'orders', 'sales'", id="two"),
        pytest.param("print(1)", "none", id="no-job"),
    ],
)
def test_application_that_the_job_file_does_not_name_has_to_be_given(job: Path, text: str, known: str) -> None:
    job.write_text(text)

    with pytest.raises(ConfigurationError, match=f"literally \\({known}\\): give --application"):
        application_of(str(job))


@pytest.mark.parametrize(
    "wrong",
    [("--application", "sales"), ("--conf", "spark.x"), ("--env", "=1"), ("--instance", "a/b")],
    ids=["other-application", "no-value", "no-name", "no-instance-name"],
)
def test_wrong_argument_is_refused(job: Path, wrong: tuple[str, str]) -> None:
    with pytest.raises(ConfigurationError):
        deployment_of(asked(job, "--instance", "a", *wrong))


def test_log_is_read_on_and_from_the_start_once_it_was_emptied(tmp_path: Path) -> None:
    file = tmp_path / "instance.log"
    log = LogFollower(file)

    assert log.read() == ""
    file.write_text("one\ntwo\n")
    assert (log.read(), log.read()) == ("one\ntwo\n", "")
    file.write_text("three\n")
    assert log.read() == "three\n"
