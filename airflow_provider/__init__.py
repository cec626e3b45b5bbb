"""Stateful PySpark streams that survive failures, with Airflow as the control plane."""

__version__ = "0.1.0"

__all__ = ["__version__"]
