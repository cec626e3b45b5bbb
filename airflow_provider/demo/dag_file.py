"""The demo's DAG file: one call, as a team writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

_TEXT = '''"""The DAGs of the demo's application."""

from airflow_provider import Drill, Instance, stream_dags

stream_dags(
    {application_id!r},
    job={job!r},
    instances=[{instances}],
    drills=[Drill("crash")],
    monitor_schedule=None,
    state_dir={state_dir!r},
    run_dir={run_dir!r},
    conf={conf!r},
)
'''


def dag_file(
    *,
    application_id: str,
    job: Path,
    instances: Sequence[str],
    state_dir: Path,
    run_dir: Path,
    conf: Mapping[str, str],
) -> str:
    """The text of the file.

    Args:
        application_id: the job's.
        job: its file.
        state_dir: for their stores.
        run_dir: for their processes.
        conf: Spark settings of each.
    """
    return _TEXT.format(
        application_id=application_id,
        job=str(job),
        instances=", ".join(f"Instance({name!r})" for name in instances),
        state_dir=str(state_dir),
        run_dir=str(run_dir),
        conf=dict(conf),
    )
