"""What users import from the packages themselves."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BASES = ("Control", "StandbyCommand")
"""Of operators and sensors: nobody puts them into a DAG."""


@pytest.mark.parametrize(("part", "kind"), [("operators", "Operator"), ("sensors", "Sensor")])
def test_every_class_for_users_can_be_imported_from_the_package(part: str, kind: str) -> None:
    package = importlib.import_module(f"airflow_provider.{part}")
    defined = {
        node.name
        for file in (ROOT / part).glob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name.endswith(kind) and not node.name.startswith(BASES)
    }

    assert set(package.__all__) == defined
    assert {name: getattr(package, name).__name__ for name in defined} == {name: name for name in defined}
    with pytest.raises(AttributeError, match="no attribute 'Unknown'"):
        _ = package.Unknown


def test_package_alone_loads_no_airflow() -> None:
    code = "import sys, airflow_provider.operators, airflow_provider.sensors; print('airflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
