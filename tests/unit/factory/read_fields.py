"""Which fields of its form a DAG reads."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from airflow.sdk import DAG

_READ = re.compile(r"""\bparams(?:["']\])?(?:\.(\w+)|\[["'](\w+)["']\])""")


def read_fields(dag: DAG) -> set[str]:
    """The fields that a template of a task names, or the function of a TaskFlow task."""
    found: set[str] = set()
    tasks: list[Any] = list(dag.tasks)
    for task in tasks:
        given = {**task.partial_kwargs, **_expanded(task)} if task.is_mapped else _templates(task)
        texts = [*_texts(given)]
        if function := getattr(task, "python_callable", None) or given.get("python_callable"):
            texts += map(inspect.getsource, (function, *_helpers(function)))
        found |= {first or second for text in texts for first, second in _READ.findall(text)}
    return found


def _helpers(function: Any) -> Iterator[Any]:
    """The package's functions that it calls by name."""
    for inner in (function.__code__, *filter(inspect.iscode, function.__code__.co_consts)):
        for name in inner.co_names:
            found = function.__globals__.get(name)
            if inspect.isfunction(found) and found.__module__.startswith("airflow_provider."):
                yield found


def _templates(task: Any) -> dict[str, Any]:
    return {name: getattr(task, name, None) for name in task.template_fields}


def _expanded(task: Any) -> dict[str, Any]:
    value = getattr(task.expand_input, "value", {})
    return dict(value) if isinstance(value, Mapping) else {}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            yield from _texts(each)
