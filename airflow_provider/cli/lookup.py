"""``lookup``: what a store holds of a key."""

from __future__ import annotations

import argparse

import msgspec

from airflow_provider.cli.options import add_application_options, add_seconds, cluster_of
from airflow_provider.cli.terminal import ExitStatus, printable
from airflow_provider.control.lookup.asking import TIMEOUT_S, Lookup, look_up, stands, value_text
from airflow_provider.errors import InstanceError


def add_lookup(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """``lookup``."""
    lookup = commands.add_parser("lookup", help="what a store holds of a key, by whom, and how old that is")
    add_application_options(lookup)
    lookup.add_argument("key", nargs="+", metavar="KEY", help="a value for each column that the store is kept by")
    lookup.add_argument("--store", metavar="NAME", help="of which store (the only one)")
    lookup.add_argument("--json", action="store_true", help="for programs")
    add_seconds(lookup, "--timeout", TIMEOUT_S, "to wait for answers")
    lookup.set_defaults(act=_act)


def _act(asked: argparse.Namespace) -> int:
    lookup = look_up(cluster_of(asked), asked.application_id, asked.key, asked.store, asked.timeout)
    if asked.json:
        print(msgspec.json.format(msgspec.json.encode(lookup.to_plain(_raw)).decode(), indent=2))
    else:
        print(printable(lookup_text(lookup)))
    if lookup.found:
        return ExitStatus.FINE
    if lookup.unknown:
        tasks = "; ".join(f"task {task}: {why}" for task, why in lookup.unknown.items())
        raise InstanceError(
            f"Whether the store {lookup.store!r} holds {_key(lookup)} is not known ({tasks}): look at 'status', and "
            "ask again."
        )
    return ExitStatus.NO


def _raw(value: str | None) -> msgspec.Raw | None:
    return None if value is None else msgspec.Raw(value)


def _key(lookup: Lookup) -> str:
    return ", ".join(map(repr, lookup.key))


def lookup_text(lookup: Lookup) -> str:
    """Lines for people."""
    lines = list[str]()
    for task, found in lookup.found.items():
        lines.append(f"task {task} on {found.instance}: {stands(found)}")
        lines += [f"{state.name}: {value_text(state.value)}" for state in found.copy.states]
        if not found.copy.complete:
            lines.append("  ... and more than an answer takes")
    if not lookup.found and not lookup.unknown:
        lines.append(f"the store {lookup.store!r} holds nothing of {_key(lookup)}")
    lines += [f"task {task}: {why}" for task, why in lookup.unknown.items()]
    return "\n".join(lines)
