"""The pages name Airflow's commands and DAGs, which are looked up in an Airflow of the tests' own."""

from __future__ import annotations

from tests.airflow_home import use_temporary_airflow_home

use_temporary_airflow_home()
