"""Builds the reference of what users import, from the docstrings: `make docs` writes it into docs/api/."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

# What a job file, a DAG file or a test of a user may import. A package stands for its modules, too.
PUBLIC = (
    "airflow_provider.streaming",
    "airflow_provider.streaming.functions",
    "airflow_provider.streaming.operations.process",
    "airflow_provider.testing",
    "airflow_provider.errors",
    "airflow_provider.dag_form",
    "airflow_provider.operators",
    "airflow_provider.sensors",
    "airflow_provider.hooks",
    "airflow_provider.triggers",
    "airflow_provider.kafka",
    "airflow_provider.kit",
)
# Their modules are internal, and what of them is for users is named by the package.
_FRONT_DOORS = ("airflow_provider.streaming", "airflow_provider.testing")


def modules() -> Iterator[str]:
    """The names of the modules that have a page.

    Raises:
        ImportError: one of them cannot be imported.
    """
    for name in PUBLIC:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            continue
        yield name
        if name not in _FRONT_DOORS and hasattr(module, "__path__"):
            for found in pkgutil.iter_modules(module.__path__):
                if found.name != "__main__":
                    importlib.import_module(f"{name}.{found.name}")
                    yield f"{name}.{found.name}"


def build(folder: Path, names: list[str]) -> None:
    """Write a page per module, and an index.

    Args:
        folder: where to; made when it is not there.
        names: the modules.
    """
    import pdoc
    from pdoc.render import configure

    # Types that Airflow imports for type checkers only cannot be linked; their names are shown as they stand.
    warnings.filterwarnings("ignore", module="pdoc")
    configure(docformat="google", show_source=False)
    pdoc.pdoc(*names, output_directory=folder)


def main() -> None:
    """Build all of it, or say what is missing."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "api"
    with tempfile.TemporaryDirectory() as home:
        # Airflow reads its settings when it is imported: the user's own are not needed for this.
        os.environ.update(AIRFLOW_HOME=home, AIRFLOW__CORE__LOAD_EXAMPLES="False")
        names = list(modules())
        build(target, names)
    print(f"{len(names)} modules: {target / 'index.html'}")


if __name__ == "__main__":
    main()
