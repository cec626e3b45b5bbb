"""These tests import Airflow."""

from __future__ import annotations

from tests.airflow_home import use_temporary_airflow_home

use_temporary_airflow_home()
