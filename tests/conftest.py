"""What holds for all tests: a test's marker follows from its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

_MARKERS = {"integration": pytest.mark.integration, "dags": pytest.mark.dag}
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        marker = _MARKERS.get(item.path.relative_to(_HERE).parts[0])
        if marker is not None:
            item.add_marker(marker)
