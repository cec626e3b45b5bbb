from __future__ import annotations

import importlib
import json
from importlib.resources import files
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from airflow_provider.get_provider_info import get_provider_info

INFO = get_provider_info()


def modules() -> list[str]:
    parts = [part for key in ("operators", "sensors", "hooks", "triggers") for part in INFO[key]]
    return [module for part in parts for module in part["python-modules"]]


def schema(name: str) -> Any:
    return json.loads(files("airflow").joinpath(name).read_text(encoding="utf-8"))


def test_provider_info_is_of_airflows_form() -> None:
    jsonschema.validate(INFO, schema("provider_info.schema.json"))


def test_connection_form_is_of_airflows_form() -> None:
    (connection,) = INFO["connection-types"]
    # Airflow checks the words after it took their dashes for underscores.
    behaviour = {key.replace("-", "_"): value for key, value in connection["ui-field-behaviour"].items()}

    jsonschema.validate(behaviour, schema("customized_form_field_behaviours.schema.json"))
    for field in connection["conn-fields"].values():
        jsonschema.Draft7Validator.check_schema(field["schema"])


@pytest.mark.parametrize("module", modules())
def test_named_module_exists(module: str) -> None:
    assert importlib.import_module(module).__all__


def test_hook_of_the_connection_type_is_the_hook() -> None:
    (connection,) = INFO["connection-types"]
    module, _, name = connection["hook-class-name"].rpartition(".")

    hook = getattr(importlib.import_module(module), name)

    assert (hook.conn_type, hook.hook_name) == (connection["connection-type"], connection["hook-name"])
