"""An Airflow of the tests' own. Airflow reads its settings when it is first imported, so this comes before."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from pathlib import Path


@functools.cache
def use_temporary_airflow_home() -> None:
    """Keep the tests away from the user's Airflow; the first call's folder serves the whole process, and no other."""
    home = tempfile.mkdtemp(prefix="airflow-")
    os.environ["AIRFLOW_HOME"] = home
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    os.environ["AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE"] = "True"
    os.environ["AIRFLOW__CORE__DAGS_FOLDER"] = str(Path(__file__).parents[1] / "dags")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
