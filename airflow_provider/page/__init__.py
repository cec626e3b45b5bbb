"""The page of applications: its API, which Airflow's API server serves, and in `ui` what the browser shows."""

from __future__ import annotations

from pathlib import Path
from typing import Final

BUNDLE: Final = Path(__file__).parent / "bundle" / "page.js"
"""What the browser loads, built of `ui`."""
KIND_TAG: Final = "stateful-streams:"
"""How the tag of a DAG begins that says which of an application's it is: by these tags the page finds applications."""
DRILL: Final = "drill"
"""The kind of all drills, whose DAGs are named by what they break."""
LOOKUPS_TAG: Final = "stateful-streams-lookups:"
"""How the tag begins that says who may look up what stores hold, where that is not `OPERATORS`."""
NOBODY: Final = "nobody"
OPERATORS: Final = "operators"
"""Who may start a run of each of the application's DAGs."""
VIEWERS: Final = "viewers"
"""Who may read its DAGs."""
LOOKUPS_BY: Final = (NOBODY, OPERATORS, VIEWERS)
"""Who may look up values on the page: the fewest first."""
