from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from airflow_provider.kit.example import topic_option


@pytest.mark.parametrize(
    ("text", "name", "partitions"),
    [pytest.param("orders:4", "orders", 4, id="both"), pytest.param("a.b_c-d", "a.b_c-d", 1, id="name alone")],
)
def test_option_names_topic_and_partitions(text: str, name: str, partitions: int) -> None:
    spec = topic_option(text)

    assert (spec.name, spec.partitions, spec.replication_factor) == (name, partitions, 1)


@pytest.mark.parametrize("text", ["", ":4", "orders:", "orders:0", "orders:-1", "orders:four", "or ders:4"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="expected name:partitions"):
        topic_option(text)
