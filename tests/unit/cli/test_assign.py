from __future__ import annotations

import pytest

from airflow_provider.cli.assign import placed_text
from airflow_provider.cli.main import main
from airflow_provider.control.placement.task_placement import PlacedTasks
from tests.builders import assigned


def test_assignment_is_a_line_for_each_task() -> None:
    placed = PlacedTasks(assignment=assigned("a b", "- c", generation=7), changed=False, on_one_host={})

    text = placed_text(placed, changed=True)

    assert text.startswith("generation 7, published\n")
    assert [line.split() for line in text.splitlines()[3:]] == [["0_0", "a", "b"], ["0_1", "-", "c"]]
    assert placed_text(placed, changed=False).startswith("generation 7, which needs no change\n")


@pytest.mark.parametrize("names", ["", "a,", "a/b"])
def test_instances_that_are_no_names_are_refused(names: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["assign", "orders", "--instances", names])

    assert ended.value.code == 2
    assert "cannot name a topic and a folder" in capsys.readouterr().err
