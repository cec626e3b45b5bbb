from __future__ import annotations

import pytest

from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.records.status import InstanceState, InstanceStatus
from airflow_provider.control.topics.view import ControlView
from airflow_provider.control.waiting.instance import is_stopping
from tests.builders import APPLICATION, instance


def asked(kind: CommandKind, incarnation: int = 1) -> Command:
    return Command(id="c", kind=kind, instance="a", incarnation=incarnation)


@pytest.mark.parametrize(
    ("status", "command", "expected"),
    [
        pytest.param(None, None, False, id="unknown"),
        pytest.param(instance("a"), None, False, id="runs"),
        pytest.param(instance("a", state=InstanceState.STOPPING), None, True, id="stops"),
        pytest.param(instance("a", stop_hand_over=False), None, True, id="has-taken-the-command"),
        pytest.param(instance("a"), asked(CommandKind.STOP), True, id="was-asked"),
        pytest.param(instance("a"), asked(CommandKind.PAUSE), False, id="asked-for-something-else"),
        pytest.param(instance("a", incarnation=2), asked(CommandKind.STOP), False, id="one-before-it-was-asked"),
        pytest.param(instance("a", state=InstanceState.STOPPED), asked(CommandKind.STOP), False, id="stopped"),
    ],
)
def test_instance_is_stopping_once_it_was_asked_until_it_ends(
    status: InstanceStatus | None, command: Command | None, expected: bool
) -> None:
    view = ControlView(
        APPLICATION,
        statuses={} if status is None else {"a": status},
        commands={} if command is None else {"a": {command.id: command}},
    )

    assert is_stopping(view, "a") is expected
