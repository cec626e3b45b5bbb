"""The DAGs of every application that an Airflow variable names: for who has no DAG file yet.

The variable `stateful_streams_applications` (*Admin*, *Variables*) holds the arguments of `stream_dags` as JSON, by
application id, such as::

    {"orders": {"job": "/srv/jobs/orders.py", "instances": [{"name": "a", "queue": "streams-1"}, {"name": "b"}],
                "slo": {"rto_s": 15}, "drills": [{"kind": "crash", "schedule": "0 4 * * 1"}]}}

Without it there is one application, whose job lies beside this file and whose topics
`python -m airflow_provider.kit --example` has. An id has to be known where a DAG is made, so no template can say it: it
is one look-up each time that this file is parsed, by each of its tasks too, and none where all of Airflow has it in the
environment, as `AIRFLOW_VAR_STATEFUL_STREAMS_APPLICATIONS`. A file of your own (docs/airflow.md) needs none.
"""

from pathlib import Path
from typing import Any

from airflow.sdk import Variable

from airflow_provider import Drill, Instance, Slo, stream_dags

EXAMPLE: dict[str, dict[str, Any]] = {
    "customer-totals": {
        "job": "jobs/customer_totals.py",
        "instances": [{"name": "a"}, {"name": "b"}],
        "slo": {"rto_s": 30},
        "drills": [{"kind": "crash"}],
        "state_dir": str(Path.home() / ".local/state/stateful-streams/stores"),
    }
}

for application_id, given in Variable.get(
    "stateful_streams_applications", default=EXAMPLE, deserialize_json=True
).items():
    parts = {
        "instances": [Instance(**instance) for instance in given["instances"]],
        "slo": Slo(**given.get("slo", {})),
        "drills": [Drill(**drill) for drill in given.get("drills", [])],
    }
    stream_dags(application_id, **{**given, **parts})
