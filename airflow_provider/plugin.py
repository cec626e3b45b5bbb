"""The page of applications in Airflow's UI: where it hangs, and what serves it."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any, Final

from airflow.plugins_manager import AirflowPlugin

from airflow_provider.page import BUNDLE

PREFIX: Final = "/stateful-streams"


async def serve(scope: Any, receive: Any, send: Any) -> None:
    """The API and the bundle, as an ASGI application that is loaded with the first request.

    Every process of Airflow loads its plugins, and only the API server needs this.
    """
    api = await asyncio.to_thread(importlib.import_module, "airflow_provider.page.api")
    await api.app(scope, receive, send)


def _bundle_url() -> str:
    """Of the bundle, with what it was built of in it, so that no browser keeps an older one."""
    with BUNDLE.open(encoding="utf-8") as bundle:
        built_of = bundle.readline().split()[-1]
    # Relative: Airflow's UI may lie below a path, and takes it from the page's base.
    return f"{PREFIX.lstrip('/')}/ui/page.js?v={built_of[:16]}"


_URL: Final = _bundle_url()


class StatefulStreamsPlugin(AirflowPlugin):
    """In the navigation the page of all applications, and on a DAG that of its application."""

    name = "stateful_streams"
    # An entry's name is what the UI shows, and under which the bundle gives its component.
    react_apps = [  # noqa: RUF012 - Airflow reads it as an attribute of the class
        {
            "name": "Streams",
            "bundle_url": _URL,
            "destination": "nav",
            "url_route": "streams",
            "nav_top_level": True,
        },
        {"name": "Stream", "bundle_url": _URL, "destination": "dag", "url_route": "stream"},
    ]
    fastapi_apps = [  # noqa: RUF012
        {"app": serve, "url_prefix": PREFIX, "name": "Stateful streams"}
    ]
