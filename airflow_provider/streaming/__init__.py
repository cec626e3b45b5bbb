"""What a job file imports: streams and the job, its aggregate functions, and the settings that it may be given.

::

    from airflow_provider.streaming import StatefulJob, functions as F, run, stream

Which process runs the rest is its path: `operations` (the keyed operations, in a worker), `driver` (beside Spark's
JVM), `worker` (in Spark's Python workers); `language` is what a user says, `planner` makes of it
what those two carry out. Knows no Airflow.
"""

from airflow_provider.changelog.restore_settings import RestoreSettings
from airflow_provider.snapshot.settings import SnapshotSettings
from airflow_provider.state.in_memory import InMemory
from airflow_provider.state.options import RocksDBOptions
from airflow_provider.state.state_store import StateStore
from airflow_provider.streaming import functions
from airflow_provider.streaming.aggregates.aggregator import Aggregator
from airflow_provider.streaming.language.stream import Stream, stream
from airflow_provider.streaming.language.table import Table, table
from airflow_provider.streaming.operations.process import ValueState
from airflow_provider.streaming.operations.process_state import KeyState, list_state, map_state, value_state
from airflow_provider.streaming.planner.job import StatefulJob
from airflow_provider.streaming.run import run
from airflow_provider.streaming.terms.error_policy import ErrorPolicy, OnError
from airflow_provider.streaming.terms.windows import session_window, window

__all__ = [
    "Aggregator",
    "ErrorPolicy",
    "InMemory",
    "KeyState",
    "OnError",
    "RestoreSettings",
    "RocksDBOptions",
    "SnapshotSettings",
    "StateStore",
    "StatefulJob",
    "Stream",
    "Table",
    "ValueState",
    "functions",
    "list_state",
    "map_state",
    "run",
    "session_window",
    "stream",
    "table",
    "value_state",
    "window",
]
