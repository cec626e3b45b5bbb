from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from airflow_provider.cli.status import add_status
from airflow_provider.demo.next_steps import next_steps

ROOT = Path(__file__).parents[3]
LINES = next_steps("http://127.0.0.1:8080", "127.0.0.1:9092", "flights", "drill")


def test_kept_demo_says_how_to_look_at_its_application() -> None:
    (command,) = (line for line in LINES if "python -m airflow_provider " in line)

    parser = argparse.ArgumentParser()
    add_status(parser.add_subparsers())
    asked = parser.parse_args(shlex.split(command)[3:])

    assert (asked.application_id, asked.bootstrap_servers) == ("flights", "127.0.0.1:9092")


def test_kept_demo_names_its_drill_and_the_page_for_an_own_job() -> None:
    text = "\n".join(LINES)

    assert "http://127.0.0.1:8080/dags/drill, Trigger" in text
    assert "docs/first-job.md" in text
    assert (ROOT / "docs" / "first-job.md").exists()
    assert "make down" in LINES[-1]


def test_lines_fit_a_terminal() -> None:
    assert max(map(len, LINES)) <= 120
