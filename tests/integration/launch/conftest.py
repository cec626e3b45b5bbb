from __future__ import annotations

import pytest

from tests.integration.launch.application import Application


@pytest.fixture
def application(bootstrap_servers: str, application_id: str) -> Application:
    return Application.create(bootstrap_servers, application_id)
