from __future__ import annotations

import pytest

from airflow_provider.launch.surroundings import ends_with

SERVICE = "0::/system.slice/airflow-worker.service\n"
SCOPE = "0::/system.slice/airflow-worker.scope\n"
SHELL = "0::/user.slice/user-1000.slice/session-3.scope\n"


@pytest.mark.parametrize(
    ("cgroup", "environment", "container", "said"),
    [
        pytest.param(SERVICE, {}, False, "systemd unit airflow-worker.service", id="service"),
        pytest.param(f"9:name=systemd:{SERVICE[3:]}", {}, False, "KillMode=process", id="service-of-version-1"),
        pytest.param(SERVICE, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, False, "is a pod", id="pod"),
        pytest.param("0::/kubepods.slice/cri-1.scope\n", {}, False, "in a container", id="kubepods"),
        pytest.param("0::/system.slice/docker-0a1b.scope\n", {}, False, "in a container", id="docker"),
        pytest.param("0::/\n", {}, True, "in a container", id="mark"),
        pytest.param("0::/\n", {"container": "podman"}, False, "in a container", id="podman"),
        pytest.param(SCOPE, {}, False, None, id="scope"),
        pytest.param("0::/system.slice/worker.service/run-r1.scope\n", {}, False, None, id="scope-in-a-service"),
        pytest.param(SHELL, {}, False, None, id="shell"),
        pytest.param("0::/user.slice/user@1000.service/app.slice/run-1.scope\n", {}, False, None, id="user-scope"),
        pytest.param("0::/\n", {}, False, None, id="bare"),
        pytest.param("", {}, False, None, id="nothing"),
    ],
)
def test_worker_is_told_what_its_instances_end_with(
    cgroup: str, environment: dict[str, str], container: bool, said: str | None
) -> None:
    found = ends_with(cgroup, environment, container)

    assert found is None if said is None else said in str(found)
