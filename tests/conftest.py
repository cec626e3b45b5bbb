"""What holds for all tests: a marker for each folder, how they are shared out, what is kept of one that failed."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from airflow_provider.kit.broker import EmbeddedBroker
from tests.groups import group_of, is_long, order_of

_MARKERS = {"integration": pytest.mark.integration, "dags": pytest.mark.dag}
_HERE = Path(__file__).parent

# A test's JVM lives for seconds: what its best compiler costs is never earned back. What a caller sets stays.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a worker of pytest-xdist one test after the other, or all tests of a group."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid) or nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        marker = _MARKERS.get(item.path.relative_to(_HERE).parts[0])
        if marker is not None:
            item.add_marker(marker)
        if is_long(item.nodeid):
            item.add_marker(pytest.mark.long)
    items.sort(key=lambda item: order_of(item.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        used: dict[str, Any] = getattr(item, "funcargs", {})
        kept = [str(used["tmp_path"])] if "tmp_path" in used else []
        kept += [str(value.log_file) for value in used.values() if isinstance(value, EmbeddedBroker)]
        report.sections.append(("Kept for a look", "\n".join(kept)))
    return report
