"""The command line over an application: what it does, and how to stop an instance, without Airflow.

`main` makes a line of every error of the package, which says by itself what to do: docstrings here name none.
"""
