from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.streaming.accounts import Accounts
from tests.integration.streaming.application import Application
from tests.integration.streaming.shared_accounts import SHARED, SharedAccounts


@pytest.fixture
def application(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Application:
    """One task, an operation that puts out one record for every order."""
    return Application.create(bootstrap_servers, application_id, tmp_path)


@pytest.fixture(scope="module")
def shared(
    bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[SharedAccounts]:
    shared = SharedAccounts(bootstrap_servers, tmp_path_factory, request.session)
    yield shared
    shared.close()


@pytest.fixture
def accounts(shared: SharedAccounts) -> Accounts:
    """Each instance has active tasks, and standbys for those of the other."""
    return shared.lend(SHARED)
