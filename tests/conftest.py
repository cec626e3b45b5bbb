"""What holds for all tests: a marker for each folder, how they are shared out, what is kept of one that failed."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from airflow_provider.kit.broker import EmbeddedBroker
from tests.class_archive import java_options

_MARKERS = {"integration": pytest.mark.integration, "dags": pytest.mark.dag}
_HERE = Path(__file__).parent

# A test's JVM lives for seconds: what its best compiler and collectors of several threads cost is never earned back.
# What a caller sets stays.
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *java_options("spark"))
os.environ.setdefault("JAVA_TOOL_OPTIONS", " ".join(_QUICK))


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a worker of pytest-xdist one test after the other, or all tests of an `xdist_group`.

    `--dist loadgroup` is for this, and groups nothing with pytest 9.2: it writes into an id that is fixed now.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _group_of(nodeid.partition("::")[0]) or nodeid


@cache
def _group_of(file: str) -> str | None:
    found = re.search(r'^pytestmark = .*xdist_group\("(.+?)"\)', (_HERE.parent / file).read_text(), re.MULTILINE)
    return found and found[1]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    return GroupScheduling(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--share", default="1/1", help="a share of the files with long tests: 2/3 is every third, from the second on"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        marker = _MARKERS.get(_folder(item))
        if marker is not None:
            item.add_marker(marker)
    left_out = _of_other_shares(items, config.getoption("--share"))
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    # Tests of a group run in one worker, one after the other, because they would take the machine from each other: they
    # take longest, so they come first. Unit tests come last, because they fill every gap.
    items.sort(key=lambda item: (item.get_closest_marker("xdist_group") is None, _folder(item) == "unit"))


def _of_other_shares(items: list[pytest.Item], share: str) -> set[pytest.Item]:
    which, _, of = share.partition("/")
    long = [item for item in items if item.get_closest_marker("long")]
    taken = sorted({item.path for item in long})[int(which) - 1 :: int(of)]
    return {item for item in long if item.path not in taken}


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(_HERE).parts[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        used: dict[str, Any] = getattr(item, "funcargs", {})
        kept = [str(used["tmp_path"])] if "tmp_path" in used else []
        kept += [str(value.log_file) for value in used.values() if isinstance(value, EmbeddedBroker)]
        report.sections.append(("Kept for a look", "\n".join(kept)))
    return report
