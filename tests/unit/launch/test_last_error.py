from __future__ import annotations

import pytest

from airflow_provider.launch.job_file import last_error

TRACEBACK = """26/11/21 22:00:01 WARN NativeCodeLoader: Unable to load native-hadoop library
Traceback (most recent call last):
  File "/dags/orders_job.py", line 12, in <module>
    run(job)
airflow_provider.errors.ConfigurationError: Job 'orders' is not complete: call sink()
26/11/21 22:00:02 INFO ShutdownHookManager: Shutdown hook called
26/11/21 22:00:02 INFO ShutdownHookManager: Deleting directory /tmp/spark-1
"""

SYNTAX = """  File "/dags/orders_job.py", line 3
    job = (
          ^
SyntaxError: '(' was never closed
log4j:WARN No appenders could be found
"""

CHAINED = """Traceback (most recent call last):
  File "a.py", line 1, in <module>
    x
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
    y
ValueError
"""

JVM = """Exception in thread "main" org.apache.spark.SparkException: no jar
\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)
Caused by: java.io.IOException: no room
"""


@pytest.mark.parametrize(
    ("log", "line"),
    [
        pytest.param(TRACEBACK, "ConfigurationError: Job 'orders' is not complete: call sink()", id="above-sparks"),
        pytest.param(SYNTAX, "SyntaxError: '(' was never closed", id="syntax-error"),
        pytest.param(CHAINED, "ValueError", id="chained"),
    ],
)
def test_last_error_is_found_among_sparks_lines(log: str, line: str) -> None:
    assert str(last_error(log)) == line


@pytest.mark.parametrize("log", ["", "no such column\n", JVM, "ValueError: printed, not raised\n"])
def test_log_without_a_traceback_has_none(log: str) -> None:
    assert last_error(log) is None
