"""The DAG file that a team writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.acceptance.airflow_parts import QUEUES

__all__ = ["DagFile"]

_DAGS = ("deploy", "upgrade", "scale", "operate", "reset", "failover", "repair", "monitor")

_TEXT = """\
from airflow_provider import Drill, Instance, Slo, stream_dags

{application} = stream_dags(
    "{application}",
    job="jobs/{application}_job.py",
    source_topics=["{application}-input"],
    output_topics=["{application}-output", "{application}-dead-letters"],
    instances=[{instances}],
    slo=Slo(rto_s=60, lag_s=30),
    drills=[{drills}],
    state_dir="{state}",
    run_dir="{run}",
    conf={{"spark.driver.memory": "512m"}},
    env_vars={{"VERSION": "{version}"}},
    default_args={{"retries": 3}},
)
"""


@dataclass
class DagFile:
    """One application's, with what a person changes in it.

    Args:
        application: its id.
        folder: of the run.
        instances: names, on the queues in turn.
        drills: by kind, the schedule.
        version: an environment variable of its instances.
    """

    application: str
    folder: Path
    instances: Sequence[str]
    drills: Mapping[str, str] = field(default_factory=dict)
    version: int = 1

    @property
    def state(self) -> Path:
        """Where its stores lie."""
        return self.folder / "state" / self.application

    @property
    def run(self) -> Path:
        """Where its instances' logs lie."""
        return self.folder / "run" / self.application

    @property
    def text(self) -> str:
        """What stands in the file."""
        instances = (
            f'Instance("{name}", queue="{QUEUES[at % len(QUEUES)]}")' for at, name in enumerate(self.instances)
        )
        drills = (f'Drill("{kind}", schedule="{schedule}")' for kind, schedule in self.drills.items())
        return _TEXT.format(
            application=self.application,
            instances=", ".join(instances),
            drills=", ".join(drills),
            state=self.state,
            run=self.run,
            version=self.version,
        )

    @property
    def dag_ids(self) -> list[str]:
        """Of the DAGs that it makes."""
        return [f"{self.application}_{name}" for name in (*_DAGS, *(f"drill_{kind}" for kind in self.drills))]

    def write(self) -> None:
        """Put it, and its job, where Airflow reads it, whole at once."""
        dags = self.folder / "dags"
        (dags / "jobs").mkdir(parents=True, exist_ok=True)
        job = (Path(__file__).parent / "ledger_job.py").read_text(encoding="utf-8").replace("ledger", self.application)
        (dags / "jobs" / f"{self.application}_job.py").write_text(job, encoding="utf-8")
        draft = dags / f"{self.application}_dags.draft"
        draft.write_text(self.text, encoding="utf-8")
        draft.replace(dags / f"{self.application}_dags.py")
