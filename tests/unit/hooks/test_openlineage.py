"""A job's topics as OpenLineage's datasets, by the classes of its provider; and without it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openlineage.client.serde import Serde

from airflow_provider.control.records.job_description import JobDescription, JobTopic, TopicKind, TopicRows
from airflow_provider.hooks.openlineage import lineage_of_job

ROOT = Path(__file__).parents[3]
JOB = JobDescription(
    application_id="shop",
    stages=(),
    topics=(
        JobTopic(name="orders", kind=TopicKind.SOURCE, stage=0),
        JobTopic(name="shop-spent-repartition", kind=TopicKind.REPARTITION, stage=0),
        JobTopic(name="shop-spent-changelog", kind=TopicKind.CHANGELOG, stage=1),
        JobTopic(name="spent", kind=TopicKind.SINK, stage=1),
        JobTopic(name="bad", kind=TopicKind.DEAD_LETTERS, stage=0),
    ),
    rows={
        "orders": TopicRows(columns={"customer": "STRING", "amount": "DOUBLE"}),
        "spent": TopicRows(
            columns={"customer": "STRING", "n": "", "spent": "", "score": "DOUBLE"},
            sources=("orders",),
            made_of={"customer": {"orders": ("customer",)}, "n": {}, "spent": {"orders": ("amount", "customer")}},
        ),
    },
)


def told(job: JobDescription | None, servers: str = "b1:9093,b2:9094") -> dict[str, dict[str, Any]]:
    """As it is sent: by topic, the dataset."""
    lineage = lineage_of_job(servers, job)
    return {one.name: json.loads(Serde.to_json(one)) for one in (*lineage.inputs, *lineage.outputs)}


def test_topics_of_the_users_are_datasets_and_internal_ones_are_not() -> None:
    lineage = lineage_of_job("b1:9093,b2:9094", JOB)

    assert [(one.namespace, one.name) for one in lineage.inputs] == [("kafka://b1:9093", "orders")]
    assert [(one.namespace, one.name) for one in lineage.outputs] == [
        ("kafka://b1:9093", "spent"),
        ("kafka://b1:9093", "bad"),
    ]


def test_columns_have_their_types_and_what_they_are_made_of_or_that_nobody_knows() -> None:
    datasets = told(JOB)

    fields = {one["name"]: one for one in datasets["spent"]["facets"]["schema"]["fields"]}
    assert {name: one.get("type") for name, one in fields.items()} == {
        "customer": "STRING", "n": None, "spent": None, "score": "DOUBLE"
    }  # fmt: skip
    assert [name for name, one in fields.items() if "not known" in (one.get("description") or "")] == ["score"]
    made = datasets["spent"]["facets"]["columnLineage"]["fields"]
    assert {
        name: [(one["namespace"], one["name"], one["field"]) for one in of["inputFields"]] for name, of in made.items()
    } == {
        "customer": [("kafka://b1:9093", "orders", "customer")],
        "spent": [("kafka://b1:9093", "orders", "amount"), ("kafka://b1:9093", "orders", "customer")],
    }
    source = datasets["orders"]["facets"]
    assert source.keys() == {"schema"}
    assert [one["name"] for one in source["schema"]["fields"] if one.get("description")] == []


def test_job_of_which_only_topics_are_known_says_no_more() -> None:
    datasets = told(JobDescription(application_id="shop", stages=(), topics=JOB.topics))

    assert datasets.keys() == {"orders", "spent", "bad"}
    assert not any(one.get("facets") for one in datasets.values())
    assert told(None) == {}


@pytest.mark.parametrize(
    ("servers", "namespace"),
    [
        pytest.param("b1:9093, b2:9094", "kafka://b1:9093", id="the-first"),
        pytest.param("SASL_SSL://b1:9093", "kafka://b1:9093", id="with-a-protocol"),
        pytest.param("b1", "kafka://b1:9092", id="without-a-port"),
        pytest.param("[::1]:9093", "kafka://[::1]:9093", id="ipv6"),
    ],
)
def test_cluster_is_named_by_its_first_server(servers: str, namespace: str) -> None:
    assert told(JOB, servers)["orders"]["namespace"] == namespace


WITHOUT = """
import sys

if sys.version_info >= (3, 12):  # as Airflow does
    from importlib import metadata
else:
    import importlib_metadata as metadata

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("openlineage", "airflow.providers.openlineage")):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

if sys.argv[1] == "absent":
    sys.meta_path.insert(0, Absent())
    there = metadata.distributions
    metadata.distributions = lambda: (one for one in there() if "openlineage" not in one.metadata["Name"])
from airflow_provider.operators import CheckSloOperator, DeployInstanceOperator
import airflow_provider.hooks.openlineage
DeployInstanceOperator(task_id="deploy", application_id="shop", instance="a")
CheckSloOperator(task_id="check", application_id="shop")
print([name for name in sys.modules if name.startswith("openlineage")])
"""


@pytest.mark.parametrize("provider", ["absent", "installed"])
def test_operators_are_made_without_the_provider_and_import_nothing_of_it(provider: str, tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(ROOT), "AIRFLOW_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, provider], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["[]"]), done.stderr
