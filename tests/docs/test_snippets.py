"""Every block of code and every command on the pages for users is true."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider import StreamDags
from airflow_provider.errors import ConfigurationError
from airflow_provider.launch.instance_settings import INSTANCE_FILE_VARIABLE
from airflow_provider.streaming import StatefulJob, stream
from airflow_provider.streaming import functions as F
from tests.docs.commands import ROOT, UnknownCommandError, check_script
from tests.docs.fences import WAYS, Fence, fences_of

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCES = [fence for page in PAGES if page.is_file() for fence in fences_of(page)]


def of_way(*ways: str) -> list[Any]:
    return [pytest.param(fence, id=fence.place) for fence in FENCES if fence.way in ways]


def execute(fence: Fence, given: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the block defines. Errors carry the page's own lines."""
    code = compile("\n" * fence.line + fence.text, str(fence.page), "exec")
    # Under another name than __main__: a job file is not run by being read.
    values = {"__name__": "page", **(given or {})}
    exec(code, values)
    return values


def jobs_of(values: dict[str, Any]) -> list[StatefulJob]:
    return [value for value in values.values() if isinstance(value, StatefulJob)]


@pytest.mark.parametrize("fence", [pytest.param(fence, id=fence.place) for fence in FENCES])
def test_block_says_how_it_is_tested(fence: Fence) -> None:
    ways = ", ".join(f"```{language} test={way}" for language, ways in WAYS.items() for way in sorted(ways))
    assert fence.way is not None, f"{fence.place} opens with ```{fence.info}: it has to be one of {ways}."


@pytest.mark.parametrize("fence", of_way("build"))
def test_job_file_builds_complete_jobs(fence: Fence) -> None:
    jobs = jobs_of(execute(fence))

    assert jobs, f"{fence.place} makes no job"


@pytest.mark.parametrize("fence", of_way("build"))
def test_job_file_runs_its_job_when_it_is_submitted(fence: Fence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(INSTANCE_FILE_VARIABLE, raising=False)

    # All that is missing is the launcher.
    with pytest.raises(ConfigurationError, match=INSTANCE_FILE_VARIABLE):
        execute(fence, {"__name__": "__main__"})


@pytest.mark.parametrize("fence", of_way("fragment"))
def test_fragment_of_a_job_file_runs(fence: Fence) -> None:
    orders = stream("orders", schema="customer STRING, amount DOUBLE", key="customer")
    counts = orders.group_by("customer").aggregate(F.count().alias("orders"))
    job = StatefulJob("app", counts.sink("counts"))

    execute(fence, {"job": job, "orders": orders, "StatefulJob": StatefulJob, "F": F})


@pytest.mark.parametrize("fence", of_way("run"))
def test_block_runs(fence: Fence) -> None:
    execute(fence)


@pytest.mark.long
@pytest.mark.parametrize("fence", of_way("pytest"))
def test_readers_test_passes(fence: Fence, tmp_path: Path) -> None:
    for saved in FENCES:
        if saved.page == fence.page and saved.line < fence.line and saved.file:
            (tmp_path / saved.file).write_text(saved.text)
    (tmp_path / "test_page.py").write_text(fence.text)

    # In a process of its own: a Spark context in the tests' process would be everybody's.
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "test_page.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, f"{fence.place}\n{done.stdout}"


@pytest.mark.parametrize("fence", of_way("dag"))
def test_dag_file_makes_a_dag(fence: Fence) -> None:
    assert any(isinstance(value, (DAG, StreamDags)) for value in execute(fence).values()), f"{fence.place} makes no DAG"


@pytest.mark.parametrize("fence", of_way("check"))
def test_commands_exist(fence: Fence) -> None:
    saved = {other.file for other in FENCES if other.page == fence.page and other.line < fence.line and other.file}

    assert check_script(fence.text, saved), f"{fence.place} holds no command"


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("make tset", id="make-target"),
        pytest.param("make chaos SEDE=1", id="make-variable"),
        pytest.param("python -m airflow_provider.kti", id="module"),
        pytest.param("python -m airflow_provider.kit.broker --prot 1", id="option"),
        pytest.param("python job.py", id="script"),
        pytest.param("airflow dags trigger stateful_streams_deplyo", id="dag"),
        pytest.param("airflow dags trigr stateful_streams_deploy", id="airflow-command"),
        pytest.param("""airflow dags trigger stateful_streams_deploy --conf '{"aplication": 1}'""", id="parameter"),
        pytest.param("airflow tasks clear stateful_streams_failover --oops", id="airflow-option"),
        pytest.param("pip install airflow-provider-stateful-streams", id="on-no-index"),
        pytest.param("pip install '/path/to/clone[dmo]'", id="extra"),
        pytest.param("cp /path/to/clone/dgas/*.py dags/", id="file"),
        pytest.param("stateful-streams status", id="program"),
        pytest.param("make venv && make tset", id="second-of-a-line"),
        pytest.param("make \\\n  tset", id="continued-line"),
        pytest.param(". ./env.sh", id="file-not-saved"),
        pytest.param("A=1 make tset > log", id="assignment-and-redirection"),
    ],
)
def test_command_that_does_not_exist_is_found(command: str) -> None:
    with pytest.raises(UnknownCommandError):
        check_script(command)


@pytest.mark.parametrize(
    "info",
    [
        pytest.param("python", id="unmarked"),
        pytest.param("", id="bare"),
        pytest.param("python test=nothing", id="unknown-way"),
        pytest.param("bash test=build", id="way-of-another-language"),
        pytest.param("sh test=check", id="unknown-language"),
        pytest.param("python test=run skip", id="unknown-third-word"),
    ],
)
def test_block_that_does_not_say_it_is_refused(info: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n```{info}\nx\n```\n")

    assert [fence.way for fence in fences_of(page)] == [None]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("from airflow_provider.streaming import Job\n", ImportError, id="import"),
        pytest.param('job = StatefulJob("a")\n', NameError, id="missing-import"),
        pytest.param("job = = 1\n", SyntaxError, id="syntax"),
    ],
)
def test_wrong_snippet_is_found(text: str, error: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(error):
        execute(Fence(tmp_path / "page.md", 3, "python test=build", text))


def test_snippet_fails_at_its_own_line_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n  ```python test=run\n  x = 1\n  1 / 0\n  ```\n")
    (fence,) = fences_of(page)

    with pytest.raises(ZeroDivisionError) as raised:
        execute(fence)

    assert raised.traceback[-1].lineno + 1 == page.read_text().splitlines().index("  1 / 0") + 1
