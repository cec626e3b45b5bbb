from __future__ import annotations

import pytest
from fsspec.registry import known_implementations

from airflow_provider.errors import ConfigurationError
from airflow_provider.snapshot.protocol import check_protocol


@pytest.mark.parametrize("url", ["file:///mnt/x", "memory://x", "simplecache::file:///mnt/x"])
def test_protocol_whose_file_system_is_there_is_accepted(url: str) -> None:
    check_protocol(url)


@pytest.mark.parametrize("url", ["s4://bucket/x", "simplecache::s4://bucket/x", "s4:bucket"])
def test_protocol_that_does_not_exist_is_refused_with_those_that_do(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"protocol 's4.*' fsspec does not know: .*such as file, s3") as caught:
        check_protocol(url)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("url", ["fast://bucket/x", "simplecache::fast://bucket/x"])
def test_protocol_without_its_package_says_what_to_install(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = {"class": "no_such_driver.FileSystem", "err": "Install fastfs to access the fast store."}
    monkeypatch.setitem(known_implementations, "fast", driver)

    with pytest.raises(
        ConfigurationError,
        match=r"'fast' needs .*: Install fastfs to .* store \(No module named 'no_such_driver'\)\. Install it in",
    ) as caught:
        check_protocol(url)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["s4://bob:hunter2@host/x", "simplecache::s4://bob:hunter2@host/x", "bob:hunter2@host/x"]
)
def test_login_in_a_url_that_is_refused_is_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError, match="fsspec does not know") as caught:
        check_protocol(url)

    assert "hunter2" not in str(caught.value)
