from __future__ import annotations

import json
from pathlib import Path

from airflow_provider.demo.errors import last_lines


def test_only_the_end_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {i}\n" for i in range(50)))

    assert last_lines(log, 2) == "line 48\nline 49"


def test_log_of_a_task_is_shown_without_its_json(tmp_path: Path) -> None:
    log = tmp_path / "log"
    failed = {
        "timestamp": "2026-01-02T03:04:05.678Z",
        "level": "error",
        "event": "Task failed",
        "error_detail": [{"exc_type": "InstanceError", "exc_value": "it ended"}],
    }
    group = json.dumps({"event": "::group::Post Execute"})
    log.write_text(f"plain\n{json.dumps(failed)}\n{group}\n[1, 2]\n")

    assert last_lines(log) == "plain\n03:04:05 ERROR Task failed\n  InstanceError: it ended\n[1, 2]"


def test_entry_of_several_lines_counts_as_several(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(json.dumps({"event": "one\ntwo\nthree"}))

    assert last_lines(log, 2) == "two\nthree"


def test_log_that_is_not_there(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "none.log") == "(nothing was logged)"
