"""Verifies the application's topics: red, with what to do, where one is not as the application needs it.

With "Repair" it does first what loses nothing: creates what is missing and sets settings. It never creates the
changelog of an application that ran before, because then the stores on the hosts are all that is left of its state.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from airflow_provider.factory.parts import Parts

__all__ = ["topics_dag"]


def topics_dag(parts: Parts) -> DAG:
    """``<application>_topics``."""
    repair = Param(
        False,
        type="boolean",
        title="Repair",
        description="Do what loses nothing. Otherwise only say what would be done.",
        section="Topics",
    )
    with parts.dag("topics", "Verifies and repairs the topics", __doc__, {"repair": repair}) as dag:
        parts.check_topics(repair="{{ params.repair }}")
    return dag
