from __future__ import annotations

import pytest

from airflow_provider.snapshot.settings import without_login


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://bucket/team@home/x", "s3://bucket/team@home/x"),
        ("abfs://container@account/x", "abfs://container@account/x"),
        ("GET https://key:hunter2@host/x said 403", "GET https://…host/x said 403"),
        ("GET https://key:one/hunter2@host/x said 403", "GET https://…host/x said 403"),
        ("GET https://hunter2@host/x said 403", "GET https://…host/x said 403"),
        ("GET abfs://key:hunter2@host/x said 403", "GET abfs://…host/x said 403"),
        ("GET https://host/x?sig=hunter2 said 403", "GET https://host/x… said 403"),
        ("GET https://host/x;token=hunter2 said 403; again", "GET https://host/x… said 403; again"),
        ("key:one/hunter2@host/x", "…host/x"),
    ],
)
def test_message_keeps_all_but_what_may_be_secret(text: str, shown: str) -> None:
    assert without_login(text) == shown
