"""Whether a triggerer runs, as Airflow's API server says: a task that is deferred waits for one without a word."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Final

from airflow.sdk.configuration import conf

_TIMEOUT_S: Final = 1.0
_EXECUTION: Final = "/execution"


def missing_triggerer() -> str | None:
    """What to say where no triggerer runs, in one line; None where one does, or where the API server does not tell.

    A worker reaches no database, so it asks the page of Airflow's health, which needs no login.
    """
    try:
        with urllib.request.urlopen(f"{_api_url()}/api/v2/monitor/health", timeout=_TIMEOUT_S) as answer:
            triggerer = json.load(answer)["triggerer"]
            status, heard = triggerer["status"], triggerer.get("latest_triggerer_heartbeat")
    except (urllib.error.URLError, OSError, ValueError, KeyError, TypeError):
        return None
    if status == "healthy":
        return None
    return (
        f"No triggerer runs (last heartbeat: {heard or 'never'}), and this task is deferred: it goes on once one does. "
        "Start `airflow triggerer`, or give the task deferrable=False."
    )


def _api_url() -> str:
    """Where tasks reach the API server: its pages are beside the interface for tasks, in the same server."""
    tasks_url = conf.get("core", "execution_api_server_url", fallback="") or ""
    if tasks_url.rstrip("/").endswith(_EXECUTION):
        return tasks_url.rstrip("/").removesuffix(_EXECUTION)
    base_url = conf.get("api", "base_url", fallback="") or ""
    return base_url.rstrip("/") if base_url.startswith("http") else f"http://localhost:8080{base_url.rstrip('/')}"
