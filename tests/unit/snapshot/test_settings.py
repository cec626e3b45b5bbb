from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.snapshot.settings import SnapshotSettings


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:hunter2@bucket/x",
        "s3://hunter2@bucket",
        "https://host/x?token=hunter2",
        "simplecache::ftp://bob:hunter2@127.0.0.1:1/x",
        "zip://a.zip::simplecache::ftp://bob:hunter2@host/x",
        "simplecache::ftp://bob:one::hunter2@host/x",
        "simplecache::https://host/x?token=hunter2",
        "ftp://bob:[hunter2@host/x",
        "ftp://bob:#hunter2@host/x",
        "bob:hunter2@host/x",
        "my_key:hunter2@host/x",
    ],
    ids=str,
)
def test_url_with_a_secret_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError, match="credentials") as caught:
        SnapshotSettings(url)

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("wrong", [{"interval_s": 0}, {"keep": 0}, {"timeout_s": -1}], ids=str)
def test_number_that_is_not_above_zero_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="above 0"):
        SnapshotSettings("file:///x", **wrong)


@pytest.mark.parametrize(
    "url", ["s3://bucket/team@home/x", "simplecache::s3://bucket/team@home", "memory://x"], ids=str
)
def test_url_without_a_login_is_accepted(url: str) -> None:
    assert SnapshotSettings(url).url == url


def test_url_without_a_scheme_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="scheme"):
        SnapshotSettings("/mnt/x")


def test_deadline_of_a_transfer_grows_with_its_size() -> None:
    settings = SnapshotSettings("file:///x", timeout_s=10, slowest_bytes_per_s=100)

    assert settings.transfer_timeout_s(0) == 10
    assert settings.transfer_timeout_s(1_000) == 20
