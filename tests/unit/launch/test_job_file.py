from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.launch.job_file import check_job_file, sha256_of


def check(text: str, folder: Path) -> None:
    file = folder / "job.py"
    file.write_text(text)
    check_job_file(str(file), "orders")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("job = StatefulJob('orders', sink)", id="same-id"),
        pytest.param("job = streaming.StatefulJob(application_id='orders')", id="by-keyword"),
        pytest.param("import os\njob = StatefulJob(os.environ['ID'])", id="id-of-the-environment"),
        pytest.param("a, b = StatefulJob('sales'), StatefulJob('orders')", id="one-of-two"),
        pytest.param("from jobs import main\nmain()", id="job-of-another-module"),
    ],
)
def test_job_file_that_may_work_is_not_refused(text: str, tmp_path: Path) -> None:
    check(text, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("job = StatefulJob('sales', sink)", id="literal"),
        pytest.param("job = streaming.StatefulJob(application_id='sales')", id="by-keyword"),
    ],
)
def test_job_of_another_application_is_refused_before_spark_starts(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is the job of 'sales', and application_id is 'orders'"):
        check(text, tmp_path)


def test_job_file_that_does_not_compile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not compile"):
        check("job = (", tmp_path)


def test_job_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"There is no job file '.*none\.py' on this host: correct its path"):
        check_job_file(str(tmp_path / "none.py"), "orders")


def test_job_file_is_compiled_and_not_executed(tmp_path: Path) -> None:
    check("raise SystemExit(1)", tmp_path)


def test_job_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not compile"):
        check("\0", tmp_path)


def test_job_file_is_known_by_its_content(tmp_path: Path) -> None:
    one, other, third = (tmp_path / name for name in ("one.py", "other.py", "third.py"))
    for job, content in ((one, "1"), (other, "1"), (third, "3")):
        job.write_text(content)

    assert sha256_of(str(one)) == sha256_of(str(other)) != sha256_of(str(third))
    assert sha256_of(str(tmp_path / "none.py")) == ""
