"""Rebuilds the changelogs of an instance's tasks from its stores, by hand, on the instance's host.

For the case that a changelog topic was deleted: the stores are all that is left of the state then. Run it while every
instance of the application is stopped, after the changelog was created again, where the newest copy of each task lies::

    python -m airflow_provider.streaming.changelog_rebuild orders --state-dir /stores --look
    python -m airflow_provider.streaming.changelog_rebuild orders --state-dir /stores --config kafka.conf --task 0_3

It needs no Airflow and nothing of the instance's run folder, from which the settings are removed when a process ends.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.changelog.reader import ChangelogReader
from airflow_provider.changelog.rebuild import look, rebuild
from airflow_provider.changelog.writer import TransactionalWriter
from airflow_provider.common.store_signature import ROCKSDB
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import StateError, StatefulStreamsError
from airflow_provider.kafka.client_config import connection_from_options
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import changelog_topic, check_name, commits_topic, transactional_id
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.state.directory import StateDirectory
from airflow_provider.state.kind import AnyStore, StoreKind
from airflow_provider.state.state_store import kept_by
from airflow_provider.state.store import Store

_TRANSACTION_MS: Final = 900_000
"""As long as brokers allow by default: the whole state is one transaction."""


def main(arguments: Sequence[str]) -> int:
    """Look at the stores, or rebuild from them, one task after the other.

    Returns:
        0 when all that was asked for is done, 1 when a task is not; its line says why.
    """
    parser = argparse.ArgumentParser(prog="changelog_rebuild", description=__doc__.partition("\n\n")[0])
    parser.add_argument("application_id", metavar="APPLICATION", help="the application id that the job file names")
    parser.add_argument(
        "--state-dir", type=Path, required=True, metavar="FOLDER", help="the state folder that the instance was given"
    )
    parser.add_argument("--bootstrap-servers", metavar="HOST:PORT", help="the brokers (localhost:9092)")
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="name=value lines in librdkafka's words, for security"
    )
    parser.add_argument("--store", help="only the tasks that keep this store; default: whatever a task keeps")
    parser.add_argument("--task", action="append", default=[], help="such as 0_3, any number; default: all there are")
    parser.add_argument("--look", action="store_true", help="only say what each store holds")
    given = parser.parse_args(arguments)
    application_id = given.application_id
    try:
        check_name("application id", application_id)
        connection = connection_from_options(given.config, given.bootstrap_servers)
        directory = StateDirectory(given.state_dir, application_id)
        tasks = [TaskId.parse(task) for task in given.task] or _tasks_in(directory, application_id)
    except (StatefulStreamsError, ValueError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    failed = 0
    for task in tasks:
        try:
            path = directory.database(task)
            kept = _kept(path, application_id, task)
            if given.store not in (None, kept.name):
                print(f"task {task}: left out, it keeps {kept.name!r}", flush=True)
                continue
            print(f"task {task}: {_rebuild(connection, application_id, path, kept, task, given.look)}", flush=True)
        except StatefulStreamsError as error:
            failed = 1
            print(f"task {task}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    return failed


def _tasks_in(directory: StateDirectory, application_id: str) -> list[TaskId]:
    tasks = directory.tasks()
    if not tasks:
        raise StateError(
            f"{directory.path} holds no copy of any task of {application_id!r}: give the state folder and the "
            "application id with which the instance was deployed."
        )
    return tasks


@dataclass(frozen=True)
class _Kept:
    """The store that a task keeps: each stage has its own.

    Args:
        changelog: its topic; of a stage without state, that of its commits.
    """

    name: str
    changelog: str


def _kept(path: Path, application_id: str, task: TaskId) -> _Kept:
    """What the last commit in a task's database is of."""
    if not path.exists():
        raise StateError(f"{path} does not exist: this instance holds no copy of task {task}.")
    with closing(_opened(path)) as store:
        position, known = store.position, store.unknown_stores
    commits = commits_topic(application_id, task.stage)
    if position is None or position.commit is None:
        raise StateError(f"The store at {path} holds no commit: there is nothing to rebuild a changelog from.")
    commit = CommitRecord.from_bytes(position.commit, application_id, task, str(path))
    # A database may hold others, too, which an earlier version of the job named.
    names = list(dict.fromkeys((*commit.digests, *commit.signature))) or list(known)
    if len(names) != 1:
        raise StateError(
            f"The last commit of the store at {path} does not say which of {', '.join(map(repr, names)) or 'none'} "
            "it is of, and has no digest: whether the store holds what was committed cannot be known. Take another "
            "copy of the task."
        )
    changelog = changelog_topic(application_id, names[0])
    without_state = commits in position.changelogs and changelog not in position.changelogs
    return _Kept(names[0], commits if without_state else changelog)


def _opened(path: Path, *names: str) -> AnyStore:
    """What lies there, kept by whatever it is: a user's class has to be importable here."""
    kind = kept_by(path) or ROCKSDB
    return Store(path, names) if kind == ROCKSDB else StoreKind(name=kind).open(path, *names or ("",))


def _rebuild(
    connection: KafkaConnection, application_id: str, path: Path, kept: _Kept, task: TaskId, look_only: bool
) -> str:
    name, changelog = kept.name, kept.changelog
    with closing(_opened(path, name)) as store:
        copy = look(store, name, application_id, task, changelog)
        found = f"{copy.keys} keys of commit {copy.commit.sequence} in {name!r}, as its digest says"
        if look_only:
            return found
        topic_id = TopicAdmin(connection).ids([changelog])[changelog]
        producer_id = transactional_id(application_id, task)
        writer = TransactionalWriter(connection, producer_id, changelog, transaction_timeout_ms=_TRANSACTION_MS)
        reader = ChangelogReader(connection, application_id)
        with closing(writer), closing(reader):
            commit = rebuild(store, name, copy, (changelog, task.partition), topic_id, writer, reader)
    return f"{changelog}[{task.partition}] holds {found}, under commit {commit.sequence}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
