"""What a DAG file with many applications costs Airflow: parsed as a whole, and for one task alone.

The DAG processor parses a file as a whole and serializes it, again and again. Each task's process parses its file too,
on the way of a failover, but for its own DAG. Beside it as many bare operators in as many bare DAGs: what Airflow takes
for itself. The figures are CPU, because the machine may be busy; the import of Airflow and this package is in none.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable

from tests.airflow_home import use_temporary_airflow_home


def cpu_ms(parse: Callable[[], object], runs: int) -> str:
    """The median of several, and the least."""
    took = []
    for _ in range(runs):
        begun = time.process_time()
        parse()
        took.append(1000 * (time.process_time() - begun))
    return f"{statistics.median(took):8.1f} ms (least {min(took):.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--applications", type=int, default=50)
    parser.add_argument("--instances", type=int, default=2, help="of each")
    parser.add_argument("--runs", type=int, default=7)
    options = parser.parse_args()
    use_temporary_airflow_home()

    from airflow.sdk import DAG, BaseOperator
    from airflow.serialization.serialized_objects import DagSerialization

    from airflow_provider import Drill, Instance, Slo, StreamDags, stream_dags

    def application(number: int) -> StreamDags:
        return stream_dags(
            f"orders-{number}",
            job="/jobs/orders.py",
            source_topics=["orders"],
            output_topics=["totals"],
            instances=[Instance(f"i{n}", queue=f"streams-{n}") for n in range(options.instances)],
            slo=Slo(rto_s=10, lag_s=30, disk_free_bytes=1 << 30),
            drills=[Drill("crash", schedule="0 4 * * 1")],
        )

    def all_of_them() -> None:
        for number in range(options.applications):
            application(number)

    def serialize() -> None:
        for dags in applications:
            for dag in dags.values():
                DagSerialization.to_dict(dag)

    one = application(0)
    one_sizes = [len(dag.tasks) for dag in one.values()]

    def bare() -> None:
        for number in range(options.applications):
            for place, size in enumerate(one_sizes):
                with DAG(f"bare-{number}-{place}", schedule=None):
                    for task in range(size):
                        BaseOperator(task_id=f"task-{task}")

    print(
        f"{options.applications} applications of {options.instances} instances: {len(one_sizes)} DAGs and "
        f"{sum(one_sizes)} tasks each"
    )
    print(f"as a whole                  {cpu_ms(all_of_them, options.runs)}")
    print(f"as many bare operators      {cpu_ms(bare, options.runs)}")
    applications = [application(number) for number in range(options.applications)]
    print(f"serialized after that       {cpu_ms(serialize, options.runs)}")
    for dag_id in ("orders-7_failover", "orders-7_repair"):
        # As Airflow does it in a task's process.
        os.environ["_AIRFLOW_PARSING_CONTEXT_DAG_ID"] = dag_id
        print(f"for a task of {dag_id.partition('_')[2]:<13} {cpu_ms(all_of_them, options.runs)}")
    del os.environ["_AIRFLOW_PARSING_CONTEXT_DAG_ID"]


if __name__ == "__main__":
    main()
