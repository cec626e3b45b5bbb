"""The steps of a drill that reach the cluster, for the command line and for the operators: inject, then judge and note.

Between the two each waits in its own way for what `waits` names. A step may be taken again, also after it failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from airflow_provider.common.clock import now_ms
from airflow_provider.control.application.current_changelog import other_stores
from airflow_provider.control.drills.fault_injection import inject_fault
from airflow_provider.control.drills.judgement import JudgedDrill, answer_to, judge_when_measured, judged_record
from airflow_provider.control.drills.outputs import check_outputs, count_outputs, take_cut
from airflow_provider.control.history.topic import read_history, write_history
from airflow_provider.control.records.drill_fault import DrillKind, InjectedFault
from airflow_provider.control.records.history import HistoryRecord, OutputCheck
from airflow_provider.control.records.incident import IncidentRecord
from airflow_provider.control.topics.commit import CommitTopics
from airflow_provider.control.topics.commit_reader import read_commits
from airflow_provider.control.topics.liveness import Timeouts
from airflow_provider.control.topics.publication import publish_by
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.view import ControlView
from airflow_provider.errors import ConfigurationError, StatefulStreamsError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.names import changelog_topic
from airflow_provider.kafka.topic_admin import TopicAdmin


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """How a drill ended.

    Args:
        record: what the history keeps of it.
        answer: what was done about the fault; None where nothing was.
        judged: what its owners did; empty where that was not measured, or not what they must.
        outputs: the outputs by count; None where it did not get that far.
        error: why it is not passed; None where it is.
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
        cluster: where the application is.
        run_id: of the run or the command, for the history.
        store: of a job that was not described, in whose changelog the commits are.
        max_rto_s: what is promised; None where nothing is.
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
            instance: which is to fail; None takes the one with the most tasks.
            timeouts: by which instances are found to live.
            num_standby_replicas: how many warm standbys each task must have; None for all that it is assigned.
            shared_sink: whether other programs write where the job does, so that outputs are not counted.

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
                judged = judge_when_measured(self.read, fault, self.max_rto_s, commits)
                since = chain.from_iterable(commits.values())
                outputs = count_outputs(self.cluster, self.application_id, topics, fault.outputs, commits=since)
                check_outputs(outputs)
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
        with ControlReader(self.cluster, self.application_id) as reader:
            return reader.read_to_end()


def check_store(admin: TopicAdmin, view: ControlView, store: str) -> None:
    """Refuse a name that no store of the application has: the commits of its tasks are in the store's changelog.

    Without them a drill would injure the application and could not judge what came of it. Of a job that was described
    its description says where the commits are, and no name is looked at.

    Args:
        view: what the application's control topics hold.
        store: as it was given.

    Raises:
        ConfigurationError: the application has no such changelog, or it may not be seen.
        BrokerUnreachableError: no broker answered.
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
