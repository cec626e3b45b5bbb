"""Any condition that can be waited for, of plain values."""

from __future__ import annotations

import functools
import operator
from typing import Any, Final

import msgspec

from airflow_provider.common import json_codec
from airflow_provider.control.waiting import figures, instance, recovery, standby, task
from airflow_provider.control.waiting.evaluation import Condition
from airflow_provider.errors import ConfigurationError

_KINDS: Final = (figures, instance, recovery, standby, task)
"""The modules that define conditions: all of them are subclasses of `Condition` by now."""


def from_plain(plain: dict[str, Any]) -> Condition:
    """A condition of what `airflow_provider.common.json_codec.to_plain` made of it, such as in the triggerer.

    Raises:
        ConfigurationError: the values are not those of a condition.
    """
    any_condition: Any = functools.reduce(operator.or_, Condition.__subclasses__())
    try:
        condition: Condition = json_codec.from_plain(plain, any_condition)
    except msgspec.ValidationError as error:
        raise ConfigurationError(
            f"{plain.get('kind')!r} with these arguments is no condition to wait for ({error}): clear the task that "
            "waits, so that it says again what it waits for."
        ) from error
    return condition
