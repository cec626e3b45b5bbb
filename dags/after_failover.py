"""A DAG of your own beside those of an application: after each failover, it shows what the application went through.

The operators and sensors of this package can be put into any DAG. This one is started by an asset, which gets an event
when a failover of the application has answered an incident.
"""

from airflow.sdk import DAG

from airflow_provider.assets import answers
from airflow_provider.operators import HistoryOperator

with DAG(
    "customer-totals_after_failover",
    description="Starts by itself after a failover: shows the last ten.",
    doc_md=__doc__,
    schedule=answers("customer-totals"),
    catchup=False,
    tags=["customer-totals"],
):
    HistoryOperator(task_id="show_failovers", application_id="customer-totals", kind="failover", limit=10)
