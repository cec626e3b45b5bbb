"""Whether a job may go on with the state of a task."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_provider.changelog.commit_record import CommitRecord
from airflow_provider.common.store_signature import WAYS_OUT, StoreSignature
from airflow_provider.common.task_id import TaskId
from airflow_provider.errors import ConfigurationError, TopicMismatchError
from airflow_provider.streaming.planner.stage_spec import StageSpec

__all__ = ["continued_signature", "refuse_state_of"]


def continued_signature(job: StageSpec, last: CommitRecord | None) -> StoreSignature | None:
    """What the state of a task means from the job's next commit on.

    Args:
        job: of the job.
        last: the task's last commit; None before the first.

    Returns:
        None where the job has no signature.

    Raises:
        ConfigurationError: another version of the job wrote the state; it meant something else by it, or read another
            topic.
        TopicMismatchError: the source was deleted and created again since.
    """
    now = job.store.signature
    if last is None:
        return now
    topic = job.input.topic
    last.check_source(topic, job.topic_ids.get(topic))
    changes = []
    if last.sources and list(last.sources) != [topic]:
        changes.append(f"source {', '.join(map(repr, sorted(last.sources)))} became {topic!r}")
    before = last.signature.get(job.store.name)
    if now is not None and before is not None:
        changes += before.changes_to(now)
    if changes:
        raise ConfigurationError(
            f"The state of task {last.task} was written by another version of the job, and this one would misread it: "
            f"{'; '.join(changes)}. Nothing was processed. {WAYS_OUT}"
        )
    return now if before is None or now is None else before.continued_by(now)


def refuse_state_of(stages: Mapping[int, StageSpec], commits: Mapping[TaskId, bytes | None]) -> None:
    """Refuse a job that one of its tasks could not go on with.

    Each task refuses by itself. But one without a commit has nothing to compare with: it would process what an earlier
    version left for it between two stages, and refuse that version when the change is undone.

    Args:
        stages: of the job, by number.
        commits: the last of each task, as it lies in its changelog; None for none.

    Raises:
        ConfigurationError: as `continued_signature`.
        TopicMismatchError: a topic between two stages was deleted and created again.
    """
    between = {topic for stage in stages.values() for topic in stage.outputs}
    for task, last in commits.items():
        if last is not None:
            _refuse_state_of(stages[task.stage], task, last, between)


def _refuse_state_of(stage: StageSpec, task: TaskId, last: bytes, between: Collection[str]) -> None:
    topic = stage.input.topic
    try:
        record = CommitRecord.from_bytes(last, stage.application_id, task, stage.changelog)
    except TopicMismatchError:
        return  # its own task says so, and holds up no other
    if not record.read_another(topic, stage.topic_ids.get(topic)):
        continued_signature(stage, record)
    elif topic in between:
        # The stages before would go on filling it. Of a source its own task says so.
        raise TopicMismatchError(
            f"{topic!r}, between two stages of {stage.application_id!r}, was deleted and created again, and what was "
            "on the way is lost with it. Nothing was processed. Reset the application, or deploy the job under another "
            "application id."
        )
