"""Stateful PySpark streams that survive failures, with Airflow as the control plane.

A DAG file needs one call an application::

    from airflow_provider import Drill, Instance, Slo, stream_dags
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider.common.lazy_names import lazy_names

if TYPE_CHECKING:
    from airflow_provider.factory import Callbacks, Drill, Instance, Slo, StreamDags, stream_dags

__version__ = "0.1.0"

__all__ = ["Callbacks", "Drill", "Instance", "Slo", "StreamDags", "__version__", "stream_dags"]

# Loaded with the first use: a Spark worker imports this package without Airflow.
__getattr__ = lazy_names(__name__, {"factory": ("Callbacks", "Drill", "Instance", "Slo", "StreamDags", "stream_dags")})
