from __future__ import annotations

from typing import Any

import pytest

from airflow_provider.errors import ConfigurationError
from airflow_provider.operators.application_reset import is_confirmed


@pytest.mark.parametrize("typed", [None, "", " ", "None"], ids=repr)
def test_empty_field_confirms_nothing(typed: Any) -> None:
    assert not is_confirmed("orders", typed)


def test_applications_own_id_confirms() -> None:
    assert is_confirmed("orders", "orders")


@pytest.mark.parametrize("typed", ["Orders", "orders ", "order", "yes", True], ids=repr)
def test_anything_else_is_refused(typed: Any) -> None:
    with pytest.raises(ConfigurationError, match="the application is 'orders', so nothing was deleted"):
        is_confirmed("orders", typed)
