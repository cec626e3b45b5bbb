"""Whether a running application can become another version of its job: a pure function of the two descriptions."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Final

from airflow_provider.common.store_signature import WAYS_OUT
from airflow_provider.control.records.job_description import JobDescription, StageDescription, TopicKind
from airflow_provider.errors import ConfigurationError

_DERIVED: Final = re.compile(r"-(join|aggregate|drop-duplicates|process)$")
"""How the names of stores end that the planner gives to what other stages read."""


def numbered_after(before: JobDescription | None, now: JobDescription) -> JobDescription:
    """A version of a job, whose stages have the numbers that they have had, so that each finds its tasks and positions.

    As long as no stage that is known has moved, and none takes the number of one that is gone, they are numbered in the
    order of the sinks: so one that gets another name goes on. Else each keeps the number that its name has had, also
    while it was out, and those whose names are new get the next ones.
    """
    if before is None or not any((*_moved(before, now), *_taken(before, now))):
        return now
    known, numbers = _numbers(before), dict[str, int]()
    free = itertools.count(max(known.values()) + 1)
    for stage in now.stages:
        number = known.get(stage.name)
        # Two that had one number, one after the other, cannot run together: `refuse_change` says so.
        numbers[stage.name] = next(free) if number is None or number in numbers.values() else number
    return now.numbered(numbers)


def refuse_change(before: JobDescription | None, now: JobDescription) -> None:
    """Refuse a version of a job that would take what one stage left for another's, or that would misread it.

    Compared is which stage is which: its number is in the tasks' names, in their folders and in the topics with their
    positions. Then, as far as it is known without Spark, what the state of each means, and what is on the way between
    two of them. The rest of that is compared when a task is opened, by the signature in its last commit.

    Args:
        now: as `numbered_after` gives it.

    Raises:
        ConfigurationError: a stage has another number, takes the number of one that was removed and that left its
            positions, reads another topic than it did under its name, would go on under another name with an empty
            store, is put back though one that fed it went on meanwhile, or has another number of partitions between
            it and the stage before it; or it means something else by its state. It says what was changed and what the
            ways out are.
    """
    if before is None:
        return
    refuse_moved_stages(before, now)
    _refuse_other_meaning(before, now)


def refuse_moved_stages(before: JobDescription, now: JobDescription) -> None:
    """The part of `refuse_change` that is about which stage is which, whatever their state means.

    Raises:
        ConfigurationError: as of `refuse_change`.
    """
    changes = [
        *_moved(before, now),
        *_taken(before, now),
        *_led_elsewhere(before, now),
        *_renamed(before, now),
        *_put_back(before, now),
        *_resized(before, now),
    ]
    if changes:
        raise ConfigurationError(
            f"This version of the job {now.application_id!r} cannot go on with what the one before it left: "
            f"{'; '.join(changes)}. Nothing was changed. Leave the sinks that there are in their order, and add "
            "new ones behind them; or deploy this version under a new application id; or reset the application, "
            "which begins again with nothing."
        )


def refuse_other_stages(kept: JobDescription | None, now: JobDescription) -> None:
    """Refuse to run a job that has other stages than the one that the application is known by, or misreads its state.

    Its tasks are those of the job on record: those of a stage more would not be assigned, and those of one less could
    not be run. And a task that has no commit yet could not refuse by itself what its stage would misread.

    Raises:
        ConfigurationError: they differ in their stages, or in the stores of these; or in what these mean, as far as
            `refuse_change` says it.
    """
    if kept is None:
        return
    now = numbered_after(kept, now)
    on_record, has = ({stage.number: _named(stage) for stage in job.stages} for job in (kept, now))
    if on_record != has:
        refuse_change(kept, now)
        raise ConfigurationError(
            f"The job file of {now.application_id!r} has the stages {_listed(has)}, and the application is known by "
            f"{_listed(on_record)}: create its topics first (the deploy DAG, where an instance that runs otherwise is "
            "restarted; or 'stateful-streams topics repair JOB.py --apply', then 'run' and 'assign'). Instances of "
            "versions with other stages do not run side by side."
        )
    _refuse_other_meaning(kept, now)


def _refuse_other_meaning(before: JobDescription, now: JobDescription) -> None:
    known = {(stage.number, _named(stage)): stage for stage in (*before.left, *before.stages)}
    changes = [
        f"stage {stage.number} ({stage.name}): {change}"
        for stage in now.stages
        if (was := known.get((stage.number, _named(stage)))) is not None
        for change in _changes(was, stage)
    ]
    if changes:
        raise ConfigurationError(
            f"The state of {now.application_id!r} was written by another version of the job, and this one would "
            f"misread it: {'; '.join(changes)}. Nothing was changed. {WAYS_OUT}"
        )


def _changes(before: StageDescription, now: StageDescription) -> list[str]:
    if before.signature is None or now.signature is None:
        return []
    return before.signature.changes_to(now.signature)


def _named(stage: StageDescription) -> str:
    return stage.name if stage.store in (None, stage.name) else f"{stage.name} ({stage.store})"


def _listed(stages: Mapping[int, str]) -> str:
    return ", ".join(f"{number}: {name}" for number, name in sorted(stages.items()))


def _moved(before: JobDescription, now: JobDescription) -> Iterator[str]:
    """Stages that went on under another number."""
    numbers = _numbers(before)
    for stage in now.stages:
        number = numbers.get(stage.name, stage.number)
        if number != stage.number:
            yield f"stage {number} ({stage.name}) became stage {stage.number}"


def _numbers(before: JobDescription) -> dict[str, int]:
    """By name, the number that a stage has or had last: it is in its topic's name, or in its commits."""
    numbers = {stage.name: stage.number for stage in before.left}
    numbers |= {name: number for number, name in before.stages_gone.items()}
    return numbers | before.numbers


def _taken(before: JobDescription, now: JobDescription) -> Iterator[str]:
    """Stages that would have the number of another one, and with it perhaps its positions."""
    numbers = _numbers(before)
    known = {stage.number: stage for stage in before.stages}
    left = {stage.number: stage.name for stage in before.left} | dict(before.stages_gone)
    for stage in now.stages:
        if numbers.get(stage.name, stage.number) != stage.number:
            continue
        was, gone = known.get(stage.number), left.get(stage.number)
        if was is not None and was.store is stage.store is None and was.source != stage.source:
            yield (
                f"stage {stage.number} ({stage.name}) reads {stage.source!r}, and the one of that number ({was.name}) "
                f"read {was.source!r}"
            )
        elif was is not None and was.name != stage.name and not _does_the_same(before, was, now, stage):
            yield (
                f"stage {stage.number} ({stage.name}) has the number of one that is removed ({was.name}), and would go "
                "on at its positions"
            )
        elif was is None and gone not in (None, stage.name):
            yield (
                f"stage {stage.number} ({stage.name}) has the number of one that was removed ({gone}), whose positions "
                "are still there"
            )


def _led_elsewhere(before: JobDescription, now: JobDescription) -> Iterator[str]:
    """Stages that read a topic of the user's where they read an internal one, or the reverse: all came already."""
    known = {stage.name: stage for stage in before.stages if stage.store is not None}
    for stage in now.stages:
        was = known.get(stage.name)
        if was is None or stage.store is None or was.source == stage.source:
            continue
        between = {*before.names(TopicKind.REPARTITION), *now.names(TopicKind.REPARTITION)}
        if not between.isdisjoint({was.source, stage.source}):
            yield (
                f"stage {stage.number} ({stage.name}) reads {stage.source!r}, and read {was.source!r}: what it counted "
                "would come to it again"
            )


def _renamed(before: JobDescription, now: JobDescription) -> Iterator[str]:
    """Stores that would begin empty, because they have their names of a sink that is not the first any more.

    Another name that was given is what was asked for.
    """
    known, has = _numbers(before), {stage.name for stage in now.stages}
    gone = {
        (stage.key, stage.operation): stage
        for stage in before.stages
        if stage.store is not None and stage.name not in has
    }
    for stage in now.stages:
        was = gone.get((stage.key, stage.operation))
        if was is None or stage.store is None or stage.name in known:
            continue
        if any(map(_DERIVED.search, (was.name, stage.name))):
            yield (
                f"the store {was.store!r} is gone, and {stage.store!r}, which does the same, would begin empty: what "
                "others use without a name has it of the first sink that needs it, so keep that one with "
                f"name={was.store!r}"
            )


def _does_the_same(before: JobDescription, was: StageDescription, now: JobDescription, is_: StageDescription) -> bool:
    """Whether a stage may go on in the place of the one that had its number, under another name."""
    if was.store is not None and is_.store is not None:
        return True
    if (was.store is None) != (is_.store is None) or was.key != is_.key:
        return False
    feeds = _feeds(before, was)
    # What one writes for a store follows what that keeps, and the store begins empty.
    return feeds == _feeds(now, is_) and (feeds or (was.steps, was.operation) == (is_.steps, is_.operation))


def _feeds(job: JobDescription, stage: StageDescription) -> bool:
    """Whether it writes what another stage reads."""
    return not {*stage.outputs}.isdisjoint(job.names(TopicKind.REPARTITION))


def _put_back(before: JobDescription, now: JobDescription) -> Iterator[str]:
    """Stages of an earlier version that come again, where one that fed them went on without them."""
    between, left = now.names(TopicKind.REPARTITION), {before.positions(stage) for stage in before.left}
    went_on = {topic for stage in now.stages if now.positions(stage) in before.own for topic in stage.outputs}
    for stage in now.stages:
        positions = now.positions(stage)
        if stage.source not in between or not {positions, stage.source} & {*before.gone}:
            continue
        if positions not in left or stage.source in went_on:
            yield (
                f"stage {stage.number} ({stage.name}) is put back, and what was to come to it over {stage.source!r} "
                "meanwhile never did, so its state is one of then that nothing could make whole (under another name= "
                "it begins with what comes from then on)"
            )


def _resized(before: JobDescription, now: JobDescription) -> Iterator[str]:
    """Topics between stages that would need another number of partitions; those of sources say it for themselves."""
    sources = {topic.name: topic.partitions for topic in before.topics if topic.kind is TopicKind.SOURCE}
    if any(sources.get(topic.name, topic.partitions) != topic.partitions for topic in now.topics):
        return
    known = {topic.name: topic.partitions for topic in before.topics if topic.kind is TopicKind.REPARTITION}
    for topic in now.topics:
        had = known.get(topic.name)
        if None not in (had, topic.partitions) and had != topic.partitions:
            yield (
                f"{topic.name!r} has {had} partitions and was to have {topic.partitions} (partitions= of group_by(), "
                "join() or drop_duplicates(), or else as many as the topic before it): keys would be in other "
                f"partitions than their state, so choose {had}, or give that store another name="
            )
