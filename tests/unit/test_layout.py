"""The borders between the parts, and what the built distribution holds."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_provider"
LINKS = ("operators", "sensors")

KAFKA, SPARK, AIRFLOW = "confluent_kafka", "pyspark", "airflow"

# What a part must not import, itself or through what it imports.
FORBIDDEN = {
    "state": {
        KAFKA,
        SPARK,
        AIRFLOW,
        *(f"airflow_provider.{part}" for part in ("changelog", "control", "snapshot", "streaming")),
    },
    "changelog": {SPARK, AIRFLOW, *(f"airflow_provider.{part}" for part in ("control", "snapshot", "streaming"))},
    "snapshot": {KAFKA, SPARK, AIRFLOW, "airflow_provider.control", "airflow_provider.streaming"},
    "control": {SPARK, AIRFLOW, "airflow_provider.streaming"},
    "streaming": {AIRFLOW, "airflow_provider.operators", "airflow_provider.sensors", "airflow_provider.embedded"},
}

# What is imported while a DAG file is parsed, and what that must not load.
AIRFLOW_SIDE = ("operators", "sensors", "triggers", "hooks", "plugin", "plugins", "get_provider_info")
HEAVY = {KAFKA, SPARK, "rocksdict"}


def source_of(module: str) -> Path | None:
    """The file of one of our modules; None when the name is not a module's (a class, or a folder without a file)."""
    path = ROOT.joinpath(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def modules_of(part: str) -> list[str]:
    folder = PACKAGE / part
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files if file.is_file()]
    return [name.removesuffix(".__init__") for name in names]


def imported_names(source: str) -> Iterator[str]:
    """All that a file imports when it runs, also inside functions; not what only a type checker sees."""
    pending: list[ast.AST] = [ast.parse(source)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            pending += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        pending += ast.iter_child_nodes(node)


def reached_from(module: str) -> dict[str, str]:
    """Every name that importing a module may import, each with the module of ours that does it."""
    reached: dict[str, str] = {}
    seen: set[str] = set()
    pending = [module]
    while pending:
        current = pending.pop()
        source = source_of(current)
        if source is None or current in seen:
            continue
        seen.add(current)
        for name in imported_names(source.read_text(encoding="utf-8")):
            reached.setdefault(name, current)
            if name.split(".")[0] == "airflow_provider":
                pending += [name, *(name.rsplit(".", up)[0] for up in range(1, name.count(".") + 1))]
    return reached


@pytest.mark.parametrize("part", FORBIDDEN)
def test_part_imports_only_what_lies_below_it(part: str) -> None:
    offences = [
        f"{module} reaches {name} through {by}"
        for module in modules_of(part)
        for name, by in reached_from(module).items()
        if any(name == forbidden or name.startswith(f"{forbidden}.") for forbidden in FORBIDDEN[part])
    ]

    assert not offences


def test_only_the_demo_and_the_tests_know_the_embedded_broker() -> None:
    parts = [path.stem for path in PACKAGE.iterdir() if path.suffix in ("", ".py") and path.stem != "__pycache__"]
    offences = [
        f"{module} imports {name}"
        for part in parts
        if part not in ("demo", "embedded")
        for module in modules_of(part)
        if (source := source_of(module)) is not None
        for name in imported_names(source.read_text(encoding="utf-8"))
        if name.startswith("airflow_provider.embedded.broker")
    ]

    assert not offences


def test_import_in_a_function_is_seen_and_one_for_types_is_not() -> None:
    source = "if TYPE_CHECKING:\n    import a\nelse:\n    import b\ndef f():\n    from c.d import e\n"

    assert set(imported_names(source)) == {"b", "c.d", "c.d.e"}


def test_parsing_a_dag_file_loads_nothing_heavy(tmp_path: Path) -> None:
    modules = [module for part in AIRFLOW_SIDE for module in modules_of(part)]
    dags = [str(path) for path in sorted((ROOT / "dags").rglob("*.py"))]
    script = (
        "import importlib, runpy, sys\n"
        f"for module in {modules!r}: importlib.import_module(module)\n"
        f"for dag in {dags!r}: runpy.run_path(dag)\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))\n"
    )
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}

    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert not HEAVY & set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("name", LINKS)
def test_link_is_a_relative_link_to_the_root_folder(name: str) -> None:
    link = PACKAGE / name

    assert link.is_symlink()
    assert link.readlink() == Path("..") / name
    assert (link / "__init__.py").is_file()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True)
    return folder


def linked_files() -> set[str]:
    return {
        f"airflow_provider/{path.relative_to(ROOT)}"
        for name in LINKS
        for path in (ROOT / name).rglob("*.py")
        if "__pycache__" not in path.parts
    }


def test_wheel_holds_what_the_links_lead_to(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())

    assert names >= linked_files() | {"airflow_provider/py.typed"}
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"airflow_provider"}


def test_wheel_built_from_the_sdist_is_the_same(built: Path, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "out"], cwd=unpacked, check=True)

    (direct,) = built.glob("*.whl")
    (by_sdist,) = (unpacked / "out").glob("*.whl")
    assert set(zipfile.ZipFile(by_sdist).namelist()) == set(zipfile.ZipFile(direct).namelist())


def test_both_distributions_of_spark_have_one_version() -> None:
    assert version("pyspark") == version("pyspark-client")


def test_lock_pins_with_hashes_and_names_no_host() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [index for index, line in enumerate(lines) if line and not line.startswith((" ", "#"))]

    assert not [line for line in lines if "://" in line or line.startswith("-")]
    assert all("==" in lines[index] and "--hash=sha256:" in lines[index + 1] for index in pins)
