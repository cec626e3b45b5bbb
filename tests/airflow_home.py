"""An Airflow of the tests' own. Airflow reads its settings when it is first imported, so this comes before."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile


def use_temporary_airflow_home() -> None:
    """Keep the tests away from the user's Airflow; the first caller's folder serves the whole process."""
    if os.environ.get("STATEFUL_STREAMS_TEST_HOME") == os.environ.get("AIRFLOW_HOME", "none"):
        return
    home = tempfile.mkdtemp(prefix="airflow-")
    os.environ["AIRFLOW_HOME"] = os.environ["STATEFUL_STREAMS_TEST_HOME"] = home
    os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
    atexit.register(shutil.rmtree, home, ignore_errors=True)
