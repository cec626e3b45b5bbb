from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from airflow_provider.kit.errors import BrokerFolderError
from airflow_provider.kit.folder import BrokerFolder, Tenant, write_properties
from airflow_provider.kit.process import GroupLeader


def test_empty_folder_has_no_tenant_and_is_not_formatted(tmp_path: Path) -> None:
    folder = BrokerFolder(tmp_path)

    assert folder.tenant() is None
    assert not folder.is_formatted()


def test_living_tenant_is_known_to_everybody(tmp_path: Path) -> None:
    tenant = Tenant(GroupLeader.of(os.getpid()), 9092, 9093)
    BrokerFolder(tmp_path).write_tenant(tenant)

    assert BrokerFolder(tmp_path).living_tenant() == tenant


def test_dead_tenant_is_remembered_but_does_not_live(tmp_path: Path) -> None:
    tenant = Tenant(GroupLeader(os.getpid(), 1.0), 9092, 9093)
    folder = BrokerFolder(tmp_path)
    folder.write_tenant(tenant)

    assert folder.tenant() == tenant
    assert folder.living_tenant() is None


def test_data_that_kafka_did_not_make_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "photos.zip").touch()

    with pytest.raises(BrokerFolderError, match=r"without Kafka's meta\.properties"):
        BrokerFolder(tmp_path).is_formatted()


def test_data_that_kafka_made_is_used_again(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").touch()

    assert BrokerFolder(tmp_path).is_formatted()


def test_end_of_both_logs_is_reported(tmp_path: Path) -> None:
    folder = BrokerFolder(tmp_path)
    assert folder.last_lines() == "(nothing was logged)"

    folder.console_file.write_text("java says\n")
    folder.log_file.write_text("".join(f"line {n}\n" for n in range(100)))

    assert folder.last_lines(count=2) == "java says\nline 98\nline 99"


def test_lines_of_an_earlier_start_are_not_reported(tmp_path: Path) -> None:
    folder = BrokerFolder(tmp_path)
    folder.log_file.write_text("of the start before\n" * 9)
    before = folder.log_sizes()

    assert folder.last_lines(after=before) == "(nothing was logged)"
    folder.log_file.open("a").write("of this start\n")
    assert folder.last_lines(after=before) == "of this start"
    folder.log_file.write_text("begun anew\n")
    assert folder.last_lines(after=before) == "begun anew"


def test_passwords_are_for_its_owner_alone_and_as_java_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("older")
    file.chmod(0o644)

    write_properties(file, {"a.password": 'b\\"c', "d": "ü😀"})

    assert file.read_text() == 'a.password=b\\\\"c\nd=\\u00fc\\ud83d\\ude00\n'
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]
