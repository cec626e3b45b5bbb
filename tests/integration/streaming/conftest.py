from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.streaming.application import Application


@pytest.fixture
def application(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Application:
    """One task, an operation that puts out one record for every order."""
    return Application.create(bootstrap_servers, application_id, tmp_path)
