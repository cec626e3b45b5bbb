"""These tests import Airflow, and draw examples."""

from __future__ import annotations

from hypothesis import settings

from tests.airflow_home import use_temporary_airflow_home

# How long one example takes is the machine's affair.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")

use_temporary_airflow_home()
