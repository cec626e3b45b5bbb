from __future__ import annotations

import pytest

from airflow_provider.control.overview.verdict import Step
from airflow_provider.page.runbook import anchor, runbook


@pytest.mark.parametrize("step", Step)
def test_every_step_that_is_pointed_to_is_in_the_runbook(step: Step) -> None:
    title, text = runbook()[step.value]

    assert anchor(title) == step.value
    assert text


def test_fences_do_not_say_how_they_are_tested() -> None:
    assert "```bash\nairflow dags list-runs" in runbook()["where-to-look"][1].replace("   ", "")
    assert not [title for title, text in runbook().values() if "test=" in text]
