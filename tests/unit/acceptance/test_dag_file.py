from __future__ import annotations

import ast
from pathlib import Path

from airflow_provider.control.records.drill_fault import DrillKind
from tests.acceptance.dag_file import DagFile


def test_file_is_as_short_as_the_pages_say_and_calls_once(tmp_path: Path) -> None:
    text = DagFile("ledger", tmp_path, ["a", "b"]).text

    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    (call,) = [node for node in calls if ast.unparse(node.func) == "stream_dags"]
    assert len(text.splitlines()) <= 17
    assert ast.literal_eval(call.keywords[-1].value) == {"retries": 3}


def test_job_has_the_application_s_own_topics(tmp_path: Path) -> None:
    file = DagFile("audit", tmp_path, ["x", "y"], {kind.value: "0 * * * *" for kind in DrillKind})
    file.write()

    job = (tmp_path / "dags" / "jobs" / "audit_job.py").read_text()
    assert "ledger" not in job
    assert 'StatefulJob("audit", ' in job
    assert not list((tmp_path / "dags").glob("*.draft"))
