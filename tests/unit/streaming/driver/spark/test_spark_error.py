from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from airflow_provider.error_text import MAX_ERROR_CHARS
from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.driver.spark.spark_error import Cause, cause_in, cause_of, step_refusal
from airflow_provider.streaming.terms.steps import Filter

FROM_WORKER = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: An exception was raised by the
Python Proxy. Return Message: Traceback (most recent call last):
  File "py4j/clientserver.py", line 617, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
pyspark.errors.exceptions.captured.PythonException:
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
RecursionError: maximum recursion depth exceeded

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "slot.py", line 2, in call
    raise BrokerUnreachableError("gone")
airflow_provider.errors.BrokerUnreachableError: The transaction of 'app-0_0' got no answer: check
that the brokers answer

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:5)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""

FROM_JVM = """[STREAM_FAILED] Query terminated with exception: Job aborted due to stage failure
org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.x(y.scala:1)
Caused by: org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [orders]
\tat org.apache.kafka.z(w.java:2)
"""

ANALYSIS = """[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `custmer` cannot be resolved. Did you mean one of
the following? [`customer`, `amount`]. SQLSTATE: 42703;
'Project [_source#1.partition AS __partition#2, 'custmer AS __key#3]
+- Project [from_json(...)]
"""
SAID = (
    "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `amnt` cannot be resolved. Did you mean one of the "
    "following? [`amount`, `at`, `__value`, `_source`]. SQLSTATE: 42703;\n'Project [...]\n"
)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        pytest.param(
            FROM_WORKER,
            "BrokerUnreachableError",
            "The transaction of 'app-0_0' got no answer: check / that the brokers answer",
            id="python-worker",
        ),
        pytest.param(
            FROM_JVM,
            "AccessError",
            "What Spark asks of the brokers is not authorized (TOPIC_AUTHORIZATION_FAILED: Not authorized to access "
            "topics: [orders]): grant the connection's user Describe and DescribeConfigs on its topics, Read on those "
            "that it reads, Write on those that it writes, Create on those that are to be made, and Delete on those "
            "whose records it deletes ('Rights' in "
            "docs/security.md has all that an application needs), then start again.",
            id="jvm",
        ),
        pytest.param(
            "Cannot fetch offset 7 (TopicPartition: orders-0)\n\tat x",
            "StreamingQueryException",
            "Cannot fetch offset 7 (TopicPartition: orders-0)",
            id="without-a-class",
        ),
        pytest.param("", "StreamingQueryException", "", id="empty"),
    ],
)
def test_cause_comes_first(text: str, kind: str, message: str) -> None:
    assert cause_in(text) == Cause(kind, message)


def test_error_of_the_jvm_in_a_micro_batch_is_the_jvms() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "source_query.py", line 1, in _batch\n'
        "py4j.protocol.Py4JJavaError: An error occurred while calling o9.collectToPython.\n"
        f": org.apache.spark.SparkException: Job aborted\n{FROM_JVM}"
    )

    assert cause_in(text) == cause_in(FROM_JVM)


def test_long_text_around_a_cause_does_not_hide_it() -> None:
    text = "plan " * 1_000_000 + FROM_WORKER + "\tat more\n" * 100_000

    assert cause_in(text).kind == "BrokerUnreachableError"


def test_cause_of_megabytes_is_cut() -> None:
    cause = cause_in(f"Traceback (most recent call last):\n  File x\nValueError: rows {'x' * 5_000_000}\n")

    assert (cause.kind, cause.message[:7]) == ("ValueError", "rows xx")
    assert len(cause.message) <= MAX_ERROR_CHARS


def test_analysis_error_keeps_sparks_hint_and_not_the_plan() -> None:
    cause = cause_of(AnalysisException(ANALYSIS))

    assert cause.kind == "AnalysisException"
    assert "Did you mean one of / the following? [`customer`, `amount`]" in cause.message
    assert "Project" not in cause.message


def test_other_errors_say_what_they_say() -> None:
    assert cause_of(OSError("no\n room")) == Cause("OSError", "no / room")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
            '  File "slot_calls.py", line 185, in _collected\n'
            "pyspark.errors.exceptions.captured.DateTimeException: [CANNOT_PARSE_TIMESTAMP] Text 'soon' could not be "
            "parsed at index 0. Use `try_to_timestamp` to tolerate it. SQLSTATE: 22007\n== DataFrame ==\n",
            id="captured",
        ),
        pytest.param(
            "Job aborted\nCaused by: org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value "
            "'soon' "
            'of the type "STRING" cannot be cast to "INT". SQLSTATE: 22018\n\tat org.apache.spark.x(y.scala:1)',
            id="jvm",
        ),
    ],
)
def test_value_that_a_step_cannot_compute_with_is_named_with_what_gives_null_instead(text: str) -> None:
    cause = cause_in(text)

    assert cause.kind == "StepError"
    assert "'soon'" in cause.message
    assert "try_to_timestamp(), try_cast()" in cause.message
    assert "on_error()" in cause.message
    assert "DataFrame" not in cause.message


def test_input_that_spark_misses_is_not_laid_on_a_step() -> None:
    text = (
        "Caused by: org.apache.spark.sql.kafka010.KafkaIllegalStateException: [KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_"
        "RANGE] Some data may have been lost. SQLSTATE: 22000"
    )

    assert cause_in(text).kind == "KafkaIllegalStateException"


def test_step_that_spark_refuses_is_named_with_its_expression() -> None:
    error = step_refusal("k", "orders", Filter("amnt > 1", "small"), AnalysisException(SAID))

    assert isinstance(error, ConfigurationError)
    assert "job 'k' for the rows of 'orders', filter amnt > 1" in str(error)
    assert "[`amount`, `at`, `_source`]" in str(error)
    assert "__value" not in str(error)
    assert "Project" not in str(error)
