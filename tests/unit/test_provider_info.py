from __future__ import annotations

import importlib
import json
from importlib.resources import files
from types import ModuleType
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from airflow.providers_manager import ProvidersManager
from airflow.sdk.configuration import conf

import airflow_provider.operators
import airflow_provider.sensors
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
    importlib.import_module(module)


@pytest.mark.parametrize("package", [airflow_provider.operators, airflow_provider.sensors], ids=lambda p: p.__name__)
def test_module_of_every_operator_and_sensor_is_named(package: ModuleType) -> None:
    key = package.__name__.rpartition(".")[2]
    (named,) = INFO[key]

    assert {getattr(package, name).__module__ for name in package.__all__} == set(named["python-modules"])


@pytest.mark.parametrize("link", INFO["extra-links"])
def test_named_link_exists_and_airflow_knows_it(link: str) -> None:
    module, _, name = link.rpartition(".")

    assert getattr(importlib.import_module(module), name)().name
    assert link in ProvidersManager().extra_links_class_names


def test_every_link_of_an_operator_or_sensor_is_named() -> None:
    kinds = (
        getattr(package, name)
        for package in (airflow_provider.operators, airflow_provider.sensors)
        for name in package.__all__
    )
    used = {f"{type(link).__module__}.{type(link).__name__}" for kind in kinds for link in kind.operator_extra_links}

    assert used == set(INFO["extra-links"])


def test_setting_without_a_value_is_none() -> None:
    assert conf.get("stateful_streams", "log_url", fallback=None) is None


def test_hook_of_the_connection_type_is_the_hook() -> None:
    (connection,) = INFO["connection-types"]
    module, _, name = connection["hook-class-name"].rpartition(".")

    hook = getattr(importlib.import_module(module), name)

    assert (hook.conn_type, hook.hook_name) == (connection["connection-type"], connection["hook-name"])
