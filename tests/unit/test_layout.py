"""The borders between the parts, and what the built distribution holds."""

from __future__ import annotations

import ast
import collections
import graphlib
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Collection, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("layout")

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_provider"
LINKS = {"operators": "operators", "sensors": "sensors", "example_dags": "dags"}

KAFKA, SPARK, AIRFLOW = "confluent_kafka", "pyspark", "airflow"

# Its module names the whole of a job's language. What lies under it is judged by its own imports.
FRONT_DOOR = "airflow_provider.streaming"
USERS = ("airflow_provider.demo.", "airflow_provider.example_dags.jobs.")

# What a part must not import, itself or through what it imports.
OURS = "airflow_provider."
FORBIDDEN = {
    "state": {
        KAFKA,
        SPARK,
        AIRFLOW,
        *(OURS + part for part in ("changelog", "control", "kafka", "snapshot", "streaming")),
    },
    "kafka": {SPARK, AIRFLOW, *(OURS + part for part in ("changelog", "control", "snapshot", "state", "streaming"))},
    "changelog": {SPARK, AIRFLOW, *(OURS + part for part in ("control", "snapshot", "streaming"))},
    "snapshot": {KAFKA, SPARK, AIRFLOW, OURS + "control", OURS + "streaming"},
    "control": {SPARK, AIRFLOW, OURS + "streaming"},
    "launch": {SPARK, AIRFLOW, "rocksdict", OURS + "streaming", OURS + "changelog", OURS + "state"},
    "streaming": {AIRFLOW, *(OURS + part for part in ("operators", "sensors", "jars", "kit"))},
    **{f"streaming/{part}": {KAFKA} for part in ("terms", "json", "operations", "aggregates", "joins", "language")},
    "streaming/expressions": {KAFKA, SPARK},
    "streaming/planner": {KAFKA, SPARK},
    "streaming/worker": {OURS + "streaming.planner.compiled_job"},
    "testing": {
        AIRFLOW,
        *(OURS + part for part in ("operators", "sensors", "triggers", "hooks", "jars", "kit", "demo")),
    },
    "cli": {
        SPARK,
        "rocksdict",
        *(OURS + part for part in ("streaming", "state", "changelog", "operators")),
    },
    "page": {
        SPARK,
        "rocksdict",
        *(OURS + part for part in ("streaming", "state", "changelog", "cli", "operators", "sensors", "factory")),
    },
    "bases": {OURS + "operators", OURS + "sensors"},
    "operators": {OURS + "sensors"},
    "sensors": {OURS + "operators"},
    "jars": {KAFKA, SPARK, AIRFLOW, OURS + "kit", OURS + "streaming"},
}

# What is imported while a DAG file is parsed, and what that must not load.
AIRFLOW_SIDE = (
    "assets",
    "bases",
    "factory",
    "operators",
    "sensors",
    "triggers",
    "hooks",
    "links",
    "plugin",
    "plugins",
    "get_provider_info",
)
HEAVY = {KAFKA, SPARK, "rocksdict"}


@cache
def source_of(module: str) -> Path | None:
    """The file of one of our modules; None when the name is not a module's (a class, or a folder without a file)."""
    path = ROOT.joinpath(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@cache
def modules_of(part: str) -> tuple[str, ...]:
    folder = PACKAGE / part
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files if file.is_file()]
    return tuple(name.removesuffix(".__init__") for name in names)


@cache
def text_of(source: Path) -> str:
    return source.read_text(encoding="utf-8")


@cache
def imported_names(source: str) -> tuple[str, ...]:
    """All that a file imports when it runs, also inside functions; not what only a type checker sees."""
    found: list[str] = []
    pending: list[ast.AST] = [ast.parse(source)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            pending += node.orelse
            continue
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        pending += ast.iter_child_nodes(node)
    return tuple(found)


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
        for name in imported_names(text_of(source)):
            reached.setdefault(name, current)
            if name.split(".")[0] == "airflow_provider":
                parents = (name.rsplit(".", up)[0] for up in range(1, name.count(".") + 1))
                pending += [name, *(parent for parent in parents if parent != FRONT_DOOR)]
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


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

OPERATIONS = ("streaming/operations", "streaming/aggregates", "streaming/joins")


def operations() -> dict[str, str]:
    """Every kind of operation, by its name, with the module that defines it."""
    bases: dict[str, tuple[str, set[str]]] = {}
    for module in (module for part in OPERATIONS for module in modules_of(part)):
        source = source_of(module)
        assert source is not None
        for node in ast.parse(text_of(source)).body:
            if isinstance(node, ast.ClassDef):
                bases[node.name] = module, {base.id for base in node.bases if isinstance(base, ast.Name)}
    found = {"Operation"}
    while more := {name for name, (_, above) in bases.items() if above & found} - found:
        found |= more
    return {name: bases[name][0] for name in found - {"Operation"}}


# A job's language is spoken by the user and by the planner; who carries it out meets operations by their contract.
MADE_BY_THE_PLANNER = {"JoinSide", "Repartition"}
"""What lies before an internal topic that no user names."""


@pytest.mark.parametrize("part", ["streaming/driver", "streaming/planner", "streaming/worker"])
def test_no_operation_is_known_by_name_where_jobs_are_planned_and_carried_out(part: str) -> None:
    made = MADE_BY_THE_PLANNER if part == "streaming/planner" else set()
    names = [f"{module}.{name}" for name, module in operations().items() if name not in made]

    assert not [f"{module} imports {name}" for module in modules_of(part) for name in own_imports(module, names)]


@pytest.mark.parametrize("part", ["streaming/driver", "streaming/planner", "streaming/worker", "testing"])
def test_nobody_asks_of_which_kind_an_operation_is_where_it_is_carried_out(part: str) -> None:
    kinds = operations()
    asked = [
        f"{module}: {ast.unparse(node)}"
        for module in modules_of(part)
        if (source := source_of(module)) is not None
        for node in ast.walk(ast.parse(text_of(source)))
        if (isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass", "type"))
        or isinstance(node, ast.MatchClass)
    ]

    assert not [question for question in asked if {"operation", *kinds} & set(re.findall(r"\w+", question))]


def test_every_operation_is_found() -> None:
    assert {"Aggregation", "Process", "SessionAggregation", "StreamTableJoin", *MADE_BY_THE_PLANNER} <= set(
        operations()
    )


def test_every_public_method_has_a_contract_its_own_or_its_bases() -> None:
    classes = [node for module in all_modules() for node in parsed(module).body if isinstance(node, ast.ClassDef)]
    by_name = {node.name: node for node in classes}

    def contract(node: ast.ClassDef, name: str) -> str | None:
        own = [
            ast.get_docstring(method) for method in node.body if isinstance(method, FUNCTIONS) and method.name == name
        ]
        bases = [by_name[base] for part in node.bases if (base := ast.unparse(part).rpartition(".")[2]) in by_name]
        return next((text for text in (*own, *(contract(base, name) for base in bases)) if text), None)

    # What is needed of another class has its contract there; what an Airflow task executes is told by its class.
    protocols = {node.name for node in classes if "Protocol" in map(ast.unparse, node.bases)}
    assert not [
        f"{node.name}.{method.name}"
        for node in classes
        for method in node.body
        if not node.name.startswith("_") and isinstance(method, FUNCTIONS) and not method.name.startswith("_")
        if contract(node, method.name) is None and method.name != "execute"
        if not (node.name in protocols and "`" in (ast.get_docstring(node) or ""))
    ]


def own_imports(module: str, wanted: Collection[str]) -> list[str]:
    """Those of the wanted modules that a module names in its own import statements."""
    source = source_of(module)
    assert source is not None
    return [name for name in imported_names(text_of(source)) if name in wanted]


def parsed(module: str) -> ast.Module:
    source = source_of(module)
    assert source is not None
    return ast.parse(text_of(source))


def all_modules() -> list[str]:
    return sorted({*modules_of("."), *(module for name in LINKS for module in modules_of(name))})


def import_circle(imports: Mapping[str, Collection[str]]) -> list[str]:
    """Modules that import each other round and round, the first one twice; empty when there are none."""
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    modules = all_modules()
    imports = {module: [name for name in own_imports(module, modules) if name != module] for module in modules}

    assert len(modules) > 150
    assert import_circle(imports) == []


def test_circle_of_imports_is_found() -> None:
    assert import_circle({"a": ["b"], "b": ["c"], "c": []}) == []
    assert set(import_circle({"a": ["b"], "b": ["c"], "c": ["b"]})) == {"b", "c"}


# Each folder, and each module beside them, above all that it imports: so no folders import each other in a circle.
FLOORS = (
    "error_text",
    "errors",
    "failpoint",
    "assets",
    "common",
    "",  # the package itself: its version
    "error_decision",
    "get_provider_info",
    "state",
    "kafka",
    "jars",
    "kit",
    "changelog",
    "snapshot",
    "control",  # no more than the docstring of what follows
    "control/records",
    "control/topics",
    "control/lookup",
    "control/application",
    "control/placement",
    "control/failover",
    "control/history",
    "control/outlook",
    "control/overview",
    "control/telemetry",
    "control/waiting",
    "control/drills",
    "links",
    "launch",
    "hooks",
    "streaming/terms",
    "streaming/json",
    "streaming/expressions",
    "streaming/operations",
    "streaming/aggregates",
    "streaming/joins",
    "streaming/language",
    "streaming/planner",
    "streaming/worker/tasks",
    "streaming/worker/step",
    "streaming/worker/standby",
    "streaming/worker",
    "streaming/driver/spark",
    "streaming/driver/slots",
    "streaming/driver/watches",
    "streaming/faults",
    "streaming/driver",
    "streaming",  # the front door
    "testing",
    "triggers",
    "bases",
    "operators",
    "sensors",
    "demo",
    "cli",
    "page",
    "plugin",
    "__main__",
    "factory",
    "example_dags",
)

MOST_MODULES = 21


def floor_of(module: str) -> int:
    """How high a module lies: by its own name or by the nearest folder around it."""
    name = module.removeprefix(OURS[:-1]).removeprefix(".").replace(".", "/")
    while name not in FLOORS and "/" in name:
        name = name.rpartition("/")[0]
    return FLOORS.index(name)


def test_no_folder_imports_what_lies_above_it() -> None:
    modules = all_modules()

    assert not [
        f"{module} imports {name}"
        for module in modules
        for name in own_imports(module, modules)
        if floor_of(name) > floor_of(module)
    ]


def test_no_folder_has_more_modules_than_can_be_overlooked() -> None:
    files = (source for module in all_modules() if (source := source_of(module)) is not None)
    sizes = collections.Counter(
        file.parent.relative_to(PACKAGE).as_posix() for file in files if file.name != "__init__.py"
    )

    assert not {folder: size for folder, size in sizes.items() if size > MOST_MODULES}


def test_only_users_come_through_the_front_door() -> None:
    offences = [
        module
        for module in all_modules()
        if module != FRONT_DOOR and not module.startswith(USERS) and own_imports(module, (FRONT_DOOR,))
    ]

    assert not offences


def importers_of(part: str) -> set[str]:
    """The modules outside of a part that import something of it, also in a function."""
    inside = modules_of(part)
    return {module for module in all_modules() if module not in inside and own_imports(module, inside)}


def test_faults_are_entered_by_an_instance_alone() -> None:
    assert importers_of("streaming/faults") == {f"{OURS}streaming.driver.instance"}


def test_only_the_demo_and_the_tests_know_the_kit() -> None:
    parts = [path.stem for path in PACKAGE.iterdir() if path.suffix in ("", ".py") and path.stem != "__pycache__"]
    offences = [
        f"{module} imports {name}"
        for part in parts
        if part not in ("demo", "kit")
        for module in modules_of(part)
        if (source := source_of(module)) is not None
        for name in imported_names(text_of(source))
        if name.startswith("airflow_provider.kit.broker")
    ]

    assert not offences


def test_only_one_module_makes_transactional_producers() -> None:
    asked = re.compile(r'"transactional\.id":|\.init_transactions\(')
    found = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if asked.search(path.read_text())]

    assert found == ["kafka/transactional_producer.py"]


def test_only_users_know_the_tester() -> None:
    tester = modules_of("testing")

    assert tester
    assert not [module for module in all_modules() if module not in tester and own_imports(module, tester)]


def test_import_in_a_function_is_seen_and_one_for_types_is_not() -> None:
    source = "if TYPE_CHECKING:\n    import a\nelse:\n    import b\ndef f():\n    from c.d import e\n"

    assert set(imported_names(source)) == {"b", "c.d", "c.d.e"}


def test_parsing_a_dag_file_loads_nothing_heavy(tmp_path: Path) -> None:
    modules = [module for part in AIRFLOW_SIDE for module in modules_of(part)]
    dags = [str(path) for path in sorted((ROOT / "dags").glob("*.py"))]
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


def test_starting_an_instance_loads_no_pandas() -> None:
    """It takes a second of CPU; pyarrow loads it where it is given Python values."""
    script = "import sys, airflow_provider.streaming.driver.instance; print('pandas' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


@pytest.mark.parametrize(("name", "folder"), LINKS.items())
def test_link_is_a_relative_link_to_the_root_folder(name: str, folder: str) -> None:
    link = PACKAGE / name

    assert link.is_symlink()
    assert link.readlink() == Path("..") / folder
    assert list(link.glob("*.py"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True)
    return folder


def linked_files() -> set[str]:
    return {
        f"airflow_provider/{name}/{path.relative_to(ROOT / folder)}"
        for name, folder in LINKS.items()
        for path in (ROOT / folder).rglob("*.py")
        if "__pycache__" not in path.parts
    }


def test_wheel_holds_what_the_links_lead_to(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())

    assert names >= linked_files() | {"airflow_provider/py.typed"}
    assert not [name for name in names if name.startswith(("airflow_provider/demo", "airflow_provider/page/ui"))]
    assert names >= {f"airflow_provider/page/{name}" for name in ("bundle/page.js", "runbook.md")}
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
