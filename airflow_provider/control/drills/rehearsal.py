"""The steps of a drill that reach the cluster, for the command line and for the operators: inject, then judge and note.

Between the two each waits in its own way for what `waits` names. A step may be taken again, also after it failed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from airflow_provider.common.clock import now_ms
from airflow_provider.common.task_id import TaskId
from airflow_provider.control.application.topic_repair import other_stores
from airflow_provider.control.drills.fault_injection import inject_fault
from airflow_provider.control.drills.judgement import (
    JudgedDrill,
    NotMeasuredYetError,
    answer_to,
    judge_drill,
    judge_outputs,
    judged_record,
)
from airflow_provider.control.drills.outputs import count_outputs, take_cut
from airflow_provider.control.history.topic import read_history, write_history
from airflow_provider.control.records.drill_fault import DrillKind, InjectedFault
from airflow_provider.control.records.history import HistoryRecord, OutputCheck
from airflow_provider.control.records.incident import IncidentRecord
from airflow_provider.control.topics.commits import Commit, CommitTopics, read_commits
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.publisher import publish_by
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import ConfigurationError, StatefulStreamsError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import changelog_topic
from airflow_provider.kafka.topic_admin import TopicAdmin

_POLL_S: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """How a drill ended.

    Args:
        judged: what its owners did; empty where that was not measured, or not what they must.
    """

    record: HistoryRecord
    answer: IncidentRecord | None
    judged: JudgedDrill
    outputs: OutputCheck | None
    error: StatefulStreamsError | None


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """One drill of an application.

    Args:
        store: of a job that was not described, in whose changelog the commits are.
    """

    cluster: KafkaConnection
    application_id: str
    run_id: str
    store: str = "state"
    max_rto_s: float | None = None

    def inject(
        self,
        fault_id: str,
        kind: DrillKind,
        instance: str | None,
        timeouts: Timeouts,
        num_standby_replicas: int | None,
        *,
        shared_sink: bool,
    ) -> InjectedFault:
        """Count what is written, and ask the instances for the fault; where one of this id is noted, return that.

        Args:
            fault_id: the same for every try.

        Raises:
            StatefulStreamsError: as `inject_fault` and `check_store`; or the history cannot be read. Nothing was done.
        """
        history = read_history(self.cluster, self.application_id)  # a drill is there to leave a record
        view, outputs = self.read(), None
        if fault_id not in view.faults:
            self.check_store(view)
            if view.assignment is not None and not shared_sink:
                topics = CommitTopics.of(view, self.store)
                outputs = take_cut(self.cluster, self.application_id, topics, sorted(view.assignment.tasks))
        return publish_by(
            self.cluster,
            self.application_id,
            lambda publisher: inject_fault(
                publisher,
                fault_id,
                instance,
                timeouts,
                history,
                kind,
                self.max_rto_s,
                outputs,
                num_standby_replicas,
                by=self.run_id,
            ),
            look=False,
        )

    def check_store(self, view: ControlView) -> None:
        """Refuse a store that the application has not; see `check_store`."""
        check_store(TopicAdmin(self.cluster), view, self.store)

    def conclude(self, fault: InjectedFault, error: StatefulStreamsError | None = None) -> Conclusion:
        """Judge what came of a fault, once all is whole again, and note it in the history under the fault's id.

        Args:
            error: why it is not passed, where that is known already; None judges it.

        Raises:
            StatefulStreamsError: the history was not written: what the drill failed by, where it did.
        """
        judged, outputs = JudgedDrill(), None
        try:
            if error is None:
                topics = CommitTopics.of(self.read(), self.store)
                commits = read_commits(self.cluster, self.application_id, topics, fault.positions)
                with self._reader() as reader:
                    reader.read_to_end()
                    judged = judge_when_measured(reader, fault, self.max_rto_s, commits)
                since = chain.from_iterable(commits.values())
                outputs = count_outputs(self.cluster, self.application_id, topics, fault.outputs, commits=since)
                judge_outputs(outputs)
        except StatefulStreamsError as found:
            error = found
        try:
            view = self.read()
            record = judged_record(view, fault, self.run_id, error, self.max_rto_s, now_ms(), outputs)
            write_history(self.cluster, self.application_id, record)
        except StatefulStreamsError as why:
            if error is None:
                raise
            raise error from why
        return Conclusion(record=record, answer=answer_to(fault, view), judged=judged, outputs=outputs, error=error)

    def read(self) -> ControlView:
        """What the application's control topics hold now."""
        with self._reader() as reader:
            return reader.read_to_end()

    def _reader(self) -> ControlReader:
        return ControlReader(self.cluster, self.application_id)


def judge_when_measured(
    reader: ControlReader,
    fault: InjectedFault,
    max_rto_s: float | None,
    commits: Mapping[TaskId, Sequence[Commit]] | None = None,
    timeout_s: float = 60.0,
) -> JudgedDrill:
    """As `judge_drill`, once the next owners have committed: where nothing had to be replaced, all is whole before."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return judge_drill(reader.view, fault, max_rto_s, commits)
        except NotMeasuredYetError:
            if time.monotonic() > deadline:
                raise
            reader.poll(_POLL_S)


def check_store(admin: TopicAdmin, view: ControlView, store: str) -> None:
    """Refuse a name that no store of the application has: the commits of its tasks are in the store's changelog.

    Without them a drill would injure the application and could not judge what came of it. Of a job that was described
    its description says where the commits are, and no name is looked at.

    Raises:
        ConfigurationError: the application has no such changelog, or it may not be seen.
    """
    if view.job is not None:
        return
    application_id = view.application_id
    topic = changelog_topic(application_id, store)
    if admin.describe(topic) is not None:
        return
    known = ", ".join(other_stores(application_id, admin.names())) or "none"
    raise ConfigurationError(
        f"{application_id!r} has no store {store!r} (there is no topic {topic!r}), but {known}: name the job's store. "
        "Nothing was done."
    )
