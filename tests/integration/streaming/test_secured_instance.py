"""An instance that logs in by SCRAM through TLS, with an instance's rights alone: its secret, and its login refused."""

from __future__ import annotations

import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from airflow_provider.control.application.rights import Role
from airflow_provider.control.records.command import CommandKind
from airflow_provider.control.records.status import InstanceState, TaskState, TaskStatus
from tests.integration.guarded_broker import GuardedBroker
from tests.integration.secured_broker import PASSWORD, USER, SecuredBroker
from tests.integration.streaming.accounts import Accounts
from tests.secret_scan import arguments_with, environments_with, files_with, holds
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

SECRETS = [PASSWORD]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker.running(tmp_path_factory.mktemp("secured"), acls=True) as running:
        yield running


@pytest.fixture(scope="module")
def accounts(secured: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Accounts]:
    """An instance of the user's has both tasks."""
    user, id_ = secured.connections["SCRAM-SHA-512"], f"accounts-{uuid.uuid4().hex[:8]}"
    with closing(Accounts(secured.bootstrap_servers, id_, tmp_path_factory.mktemp(id_), num_tasks=2, seed=11)) as made:
        guarded = GuardedBroker(secured.bootstrap_servers, user, user, user)
        guarded.grant(id_, Role.INSTANCE, source=made.orders.topic, sink=made.totals)
        plain, made.connection = made.connection, user
        made.launch("i1", ui=True)
        made.connection = plain
        made.assign("i1", "i1")
        yield made


def answers_of_spark(url: str) -> str:
    """What Spark's REST interface says of the application."""
    with urllib.request.urlopen(f"{url}/api/v1/applications", timeout=60) as answer:
        listed = answer.read().decode()
    (application,) = {part.split('"')[3] for part in listed.splitlines() if '"id" :' in part}
    said = [listed]
    for page in ("environment", "sql?details=true&planDescription=true", "jobs", "stages", "executors"):
        with urllib.request.urlopen(f"{url}/api/v1/applications/{application}/{page}", timeout=60) as answer:
            said.append(answer.read().decode())
    return "\n".join(said)


def set_password(secured: SecuredBroker, password: str) -> None:
    """The user's, for the next connection that is made."""
    admin = AdminClient({"bootstrap.servers": secured.bootstrap_servers})  # its futures end with it
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    changed = UserScramCredentialUpsertion(USER, credential, password.encode())
    for done in admin.alter_user_scram_credentials([changed]).values():
        done.result(30.0)


def test_task_whose_login_is_refused_runs_again_once_its_password_is_valid_again(
    accounts: Accounts, secured: SecuredBroker
) -> None:
    accounts.orders.write(40, [0, 1])
    accounts.check(900.0)

    set_password(secured, "another")
    try:
        # A connection that stands stays; the worker that Spark starts instead has to make its own.
        accounts.worker_of("i1", 0).kill()
        accounts.orders.write(40, [0, 1])

        refused: list[TaskStatus] = []

        def is_refused() -> bool:
            refused[:] = [task for task in accounts.status("i1").tasks if task.error_kind == "LoginRefusedError"]
            return bool(refused)

        accounts.wait(is_refused, "a task to be refused", 600.0)
    finally:
        set_password(secured, PASSWORD)
    assert refused[0].state is TaskState.FAILED
    assert f"The login of {USER!r} by SCRAM-SHA-512 is refused" in str(refused[0].error)
    accounts.check(900.0)
    accounts.wait(accounts.settled, "no task to be failed any more", 900.0)


def test_instance_behind_tls_scram_and_acls_is_exact_and_shows_its_secret_nowhere(accounts: Accounts) -> None:
    accounts.orders.write(100, [0, 1])
    accounts.check(240.0)

    # A password was refused before, by the test above: it is not told either.
    run_dir = accounts.run_dir("i1")
    settings = run_dir / "instance.json"
    url = str(accounts.status("i1").process.ui_url)
    assert holds(settings.read_text(), SECRETS)
    assert not holds(answers_of_spark(url), SECRETS), "what Spark's REST interface answers"
    assert arguments_with(SECRETS) == []
    assert environments_with(SECRETS, accounts.processes("i1")) == []
    assert not holds(accounts.log("i1"), SECRETS)
    assert files_with(SECRETS, accounts.folder) == [settings], "the instance's own file alone"

    accounts.command(CommandKind.STOP, "i1")
    accounts.wait_for_state("i1", InstanceState.STOPPED, 120.0)
    wait_until(lambda: not settings.exists(), 120.0, "the launcher to remove the instance's file")

    assert files_with(SECRETS, accounts.folder) == []
