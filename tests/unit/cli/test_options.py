from __future__ import annotations

import argparse
from typing import Any

import pytest

from airflow_provider.cli.main import main
from airflow_provider.cli.options import check_instance
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import InstanceError
from tests.builders import active, assigned, instance, view_of

VIEW = view_of(assigned("a b"), instance("a", active(0)), instance("d"))


class Reader:
    """Of the application above."""

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read_to_end(self) -> ControlView:
        return VIEW


@pytest.mark.parametrize("name", [None, "a", "b", "d"], ids=["none", "reports", "assigned", "without-tasks"])
def test_instance_that_the_application_has_is_taken(name: str | None) -> None:
    check_instance(VIEW, name)


def test_other_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InstanceError, match="'app' has no instance 'c', but a, b, d: correct its name"):
        check_instance(VIEW, "c")


@pytest.mark.parametrize(
    ("command", "module", "reads"),
    [
        ("drill", "drill", "control.drills.rehearsal"),
        ("certify", "standby_commands", "cli.standby_commands"),
        ("snapshot", "standby_commands", "cli.standby_commands"),
    ],
)
def test_command_about_another_name_ends_at_once(
    command: str, module: str, reads: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def connected(_: argparse.Namespace) -> None:
        """Whatever else is asked of the cluster fails: nothing was written."""

    monkeypatch.setattr(f"airflow_provider.cli.{module}.cluster_of", connected)
    monkeypatch.setattr(f"airflow_provider.{reads}.ControlReader", Reader)

    assert main([command, "app", "--instance", "c"]) == 1
    assert "InstanceError: 'app' has no instance 'c', but a, b, d" in capsys.readouterr().err
