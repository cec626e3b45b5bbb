"""A watcher of an application, as a triggerer runs it, for tests of what needs one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def watched(application_id: str) -> Iterator[None]:
    """Watch in a thread of its own. Nothing answers what it fires."""
    # Imports Airflow, whose home the tests choose before that.
    from airflow_provider.triggers import IncidentTrigger

    loop = asyncio.new_event_loop()

    async def watch() -> None:
        with suppress(asyncio.CancelledError):
            async for _ in IncidentTrigger(application_id).run():
                pass

    task = loop.create_task(watch())
    thread = threading.Thread(target=loop.run_until_complete, args=(task,))
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()
