from __future__ import annotations

from pyspark.errors import AnalysisException

from airflow_provider.errors import ConfigurationError
from airflow_provider.streaming.driver.step_refusal import step_refusal
from airflow_provider.streaming.steps import Filter

SAID = (
    "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `amnt` cannot be resolved. Did you mean one of the "
    "following? [`amount`, `at`, `__value`, `_source`]. SQLSTATE: 42703;\n'Project [...]\n"
)


def test_step_that_spark_refuses_is_named_with_its_expression() -> None:
    error = step_refusal("k", "orders", Filter("amnt > 1", "small"), AnalysisException(SAID))

    assert isinstance(error, ConfigurationError)
    assert "job 'k' for the rows of 'orders', filter amnt > 1" in str(error)
    assert "[`amount`, `at`, `_source`]" in str(error)
    assert "__value" not in str(error)
    assert "Project" not in str(error)
