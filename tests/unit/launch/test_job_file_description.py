from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider.cli.main import main
from airflow_provider.errors import ConfigurationError, DeadlineError
from airflow_provider.launch.job_file import describe_job_file

JOB = """
import os, sys
from airflow_provider.streaming import StatefulJob, functions as F, run, stream

words = stream(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("TOPIC", "lines"), schema="word STRING")
job = StatefulJob("app", words.group_by("word").aggregate(F.count().alias("n")).sink("counts"))
if __name__ == "__main__":
    print("a line of its own")
    run(job)
"""
PYSPARK = JOB.replace("functions as F, run", "run").replace(
    "os, sys", "os, sys; from pyspark.sql import functions as F"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "job.py"
    path.write_text(JOB)
    return path


def test_job_file_says_what_its_job_is(file: Path) -> None:
    described = describe_job_file(str(file), "app", env_vars={"TOPIC": "others"})

    assert [(stage.name, stage.source) for stage in described.stages] == [
        ("counts-repartition", "others"),
        ("counts", "app-counts-repartition"),
    ]


def test_arguments_of_the_job_file_are_given_to_it(file: Path) -> None:
    assert describe_job_file(str(file), "app", application_args=("given",)).stages[0].source == "given"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(JOB.replace('group_by("word")', 'group_by("wrod")'), "did you mean 'word'", id="wrong-column"),
        pytest.param("print('hello')", "runs no job and printed 'hello' where its job was asked for", id="no-job"),
        pytest.param("x = 1", r"runs no job and printed nothing\. Let it end with .* run\(job\)", id="prints-nothing"),
        pytest.param(JOB.replace("__main__", "no"), r"printed nothing: its run\(job\) was not reached", id="unreached"),
        pytest.param(
            PYSPARK, r"line 6: TypeError: count\(\).*'from airflow_provider\.streaming import", id="of-pyspark"
        ),
        pytest.param(
            PYSPARK.replace("F.count()", "F.sum('n')"),
            r"line 6, calls a function of pyspark\. .*: for aggregates write 'from airflow_provider\.streaming import",
            id="of-pyspark-without-a-session",
        ),
        pytest.param(
            JOB.replace("import os", "import nothing_of_that_name, os"),
            r"line 2: ModuleNotFoundError: No module named 'nothing_of_that_name'\. Run it with",
            id="another-error",
        ),
        pytest.param("import sys; sys.exit(3)", "ended with status 3", id="status"),
        pytest.param("def", "does not compile", id="no-python"),
        pytest.param(JOB.replace('"app"', '"other"'), "is the job of 'other', and application_id is 'app'", id="id"),
    ],
)
def test_file_that_does_not_is_refused_in_one_line(file: Path, text: str, why: str) -> None:
    file.write_text(text)

    with pytest.raises(ConfigurationError, match=why) as refused:
        describe_job_file(str(file), "app")
    text = str(refused.value)
    assert "\n" not in text
    assert ".." not in text
    assert "ConfigurationError" not in text


def test_line_of_the_job_file_is_named_not_that_of_the_package(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(JOB.replace('group_by("word")', 'group_by("wrod")'))

    assert main(["describe", str(file)]) == 1

    refused = "group_by() names the column 'wrod', which does not exist: did you mean 'word'? There are 'word'."
    said = f"stateful-streams: ConfigurationError: The job file {str(file)!r}, line 6: {refused}\n"
    assert capsys.readouterr().err == said


def test_file_that_waits_for_something_is_given_up(file: Path) -> None:
    file.write_text("import threading\nthreading.Event().wait()")

    with pytest.raises(DeadlineError, match=r"did not say what its job is within 0\.2 s"):
        describe_job_file(str(file), "app", timeout_s=0.2)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        pytest.param([], "stage 1: counts", id="text"),
        pytest.param(["--mermaid"], "flowchart LR", id="mermaid"),
        pytest.param(["--json"], '{"application_id":"app"', id="json"),
        pytest.param(["--arg", "given"], "  reads   given", id="argument"),
    ],
)
def test_command_line_describes_a_job_file(
    file: Path, arguments: list[str], shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["describe", str(file), *arguments]) == 0
    said = capsys.readouterr().out
    assert shown in said
    assert "a line of its own" not in said


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        pytest.param(["job.py", "a"], "is a job file, and has no 'a' yet", id="instance-of-a-file"),
        pytest.param(["app", "--mermaid"], "--mermaid and --arg are of a job file", id="picture-of-an-application"),
        pytest.param(["a/b"], "cannot name a topic", id="no-name"),
    ],
)
def test_command_line_says_what_it_cannot_describe(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["describe", *arguments]) == 1
    assert why in capsys.readouterr().err
