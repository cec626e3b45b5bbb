"""The units and manifests of docs/deployment are what the programs that read them take."""

from __future__ import annotations

import configparser
import copy
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from airflow_provider.cli.options import variable_of
from airflow_provider.cli.terminal import ExitStatus
from airflow_provider.common.host_name import HOST_VARIABLE
from tests.docs.commands import ROOT

FILES = ROOT / "docs" / "deployment"
OPTIONS = (
    "--application", "--config", "--instance", "--log", "--master", "--run-dir", "--state-dir", "--stop-timeout",
)  # fmt: skip
MANIFESTS: list[dict[str, Any]] = list(yaml.safe_load_all((FILES / "statefulset.yaml").read_text()))
STATEFUL_SET = next(manifest for manifest in MANIFESTS if manifest["kind"] == "StatefulSet")


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["kind"])
def test_manifest_has_the_schema_of_kubernetes(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, "1.30", strict=True)


def test_schema_refuses_what_is_misspelt() -> None:
    wrong = copy.deepcopy(STATEFUL_SET)
    wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.30", strict=True)


def test_pod_is_given_more_time_than_the_instance_takes_to_stop() -> None:
    pod = STATEFUL_SET["spec"]["template"]["spec"]
    environment = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}

    assert pod["terminationGracePeriodSeconds"] > int(environment["STATEFUL_STREAMS_STOP_TIMEOUT"])


def test_pod_is_admitted_by_a_restricted_namespace() -> None:
    """The rules of the level ``restricted`` of Kubernetes' Pod Security Standards that a pod like this can break."""
    pod = STATEFUL_SET["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    for container in pod["containers"]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {next(iter(volume.keys() - {"name"})) for volume in pod["volumes"]} <= {"secret"}


def test_no_more_than_one_instance_is_drained_at_once_and_no_port_is_promised() -> None:
    (budget,) = (manifest for manifest in MANIFESTS if manifest["kind"] == "PodDisruptionBudget")
    (service,) = (manifest for manifest in MANIFESTS if manifest["kind"] == "Service")

    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["selector"] == STATEFUL_SET["spec"]["selector"]
    assert "ports" not in service["spec"]


def test_pod_that_waits_for_topics_or_brokers_is_not_killed() -> None:
    """`health` without ``--ready`` is fine as long as the command is there and no instance was launched."""
    (container,) = STATEFUL_SET["spec"]["template"]["spec"]["containers"]
    for probe in ("startupProbe", "livenessProbe"):
        assert container[probe]["exec"]["command"] == ["stateful-streams", "health"]


def test_unit_takes_what_it_does_not_need_from_the_instance() -> None:
    unit = (FILES / "stateful-streams@.service").read_text()

    for line in ("NoNewPrivileges=true", "CapabilityBoundingSet=", "ProtectSystem=strict", "PrivateTmp=true"):
        assert f"{line}\n" in unit
    assert "MemoryDenyWriteExecute=" not in unit, "the JVM compiles"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on this machine")
@pytest.mark.parametrize("unit", ["stateful-streams@.service", "airflow-worker.service"])
def test_unit_is_what_systemd_takes(unit: str, tmp_path: Path) -> None:
    # It also looks for the program, which the reader has to install.
    text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", (FILES / unit).read_text(), flags=re.MULTILINE)
    (tmp_path / unit).write_text(text)

    asked = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / unit)], capture_output=True, text=True, check=False
    )

    assert (asked.returncode, asked.stderr) == (0, "")


def test_supervisors_start_again_what_is_to_be_and_leave_the_rest() -> None:
    unit = (FILES / "stateful-streams@.service").read_text()
    assert f"RestartPreventExitStatus={int(ExitStatus.PERMANENT)}\n" in unit
    assert "Restart=on-failure\n" in unit
    parser = configparser.ConfigParser(inline_comment_prefixes=(";",))
    parser.read(FILES / "supervisord.conf")
    known = {int(status) for status in parser["program:orders-a"]["exitcodes"].split(",")}
    assert known == {ExitStatus.FINE, ExitStatus.PERMANENT}


@pytest.mark.parametrize("file", sorted(FILES.iterdir()), ids=lambda file: file.name)
def test_every_variable_is_one_that_is_read(file: Path) -> None:
    read = {HOST_VARIABLE, *map(variable_of, OPTIONS)}

    assert set(re.findall(r"STATEFUL_STREAMS_[A-Z_]+", file.read_text())) <= read
