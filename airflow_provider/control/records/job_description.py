"""What a job is made of: its stages, their stores, and the topics that it reads and writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from airflow_provider.common.store_signature import ROCKSDB, StoreSignature
from airflow_provider.errors import ConfigurationError
from airflow_provider.kafka.names import changelog_topic, commits_topic


class TopicKind(Enum):
    """What a topic is to a job."""

    SOURCE = "source"
    REPARTITION = "repartition"
    """Between two stages; the later one's tasks delete what they have processed."""
    CHANGELOG = "changelog"
    COMMITS = "commits"
    """Of a stage without a store: where it stands."""
    SINK = "sink"
    DEAD_LETTERS = "dead letters"


@dataclass(frozen=True, kw_only=True)
class JobTopic:
    """A topic of a job.

    Args:
        stage: that writes it; of a source, the first that reads it.
        partitions: how many it has, or is to have where it does not exist; None while that is not known.
        like: the source that it has as many as, where the number is not the job's to choose.
        store: of a changelog, the store's name.
        windowed: whether that store holds windows, whose changelog is cut when they are over.
    """

    name: str
    kind: TopicKind
    stage: int
    partitions: int | None = None
    like: str | None = None
    store: str | None = None
    windowed: bool = False


def in_order(topics: Iterable[JobTopic]) -> tuple[JobTopic, ...]:
    """Topics by their kinds, and by the numbers of their stages."""
    kinds = list(TopicKind)
    return tuple(sorted(topics, key=lambda topic: (kinds.index(topic.kind), topic.stage)))


@dataclass(frozen=True, kw_only=True)
class StageDescription:
    """A stage of a job.

    Args:
        store_kind: what keeps it: ``rocksdb``, ``memory``, or ``module:Class`` of a user's.
        further_outputs: topics that get the same records.
        named_outputs: by topic that gets those of an output with a name, that name.
        partitions: of its source, as many as it has tasks; None while that is not known.
        rows: who decodes its records and takes the steps, and why it is Spark; None while that is not known.
        signature: what its state means, and what it reads over an internal topic, as far as that is known without
            Spark: without types; None where an earlier version of this package described it.
    """

    number: int
    name: str
    source: str
    steps: tuple[str, ...]
    key: str
    operation: str
    store: str | None = None
    store_kind: str = ROCKSDB
    output: str | None = None
    further_outputs: tuple[str, ...] = ()
    named_outputs: Mapping[str, str] = field(default_factory=dict)
    partitions: int | None = None
    rows: str | None = None
    signature: StoreSignature | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        """All topics that it writes its records into."""
        return (*(() if self.output is None else (self.output,)), *self.further_outputs, *self.named_outputs)


@dataclass(frozen=True, kw_only=True)
class TopicRows:
    """The rows in a source or a sink, as far as the job says it.

    Args:
        columns: by name, their types in Spark DDL, empty where only Spark knows one; none where they are not known.
        sources: of a sink, the topics that its rows are made of.
        made_of: of a sink, by column and source topic, the columns that it is made of: of none a constant, or a count
            of rows. A column that is missing here is made in a way that is not known.
    """

    columns: Mapping[str, str]
    sources: tuple[str, ...] = ()
    made_of: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class JobDescription:
    """All of a job that does not depend on who runs it.

    Kept in ``<app>-assignment`` under ``job``, so that Airflow and the command line know an application's tasks without
    the job file.

    Args:
        stages: each before those that read what it writes.
        topics: sources first.
        gone: names of topics that it kept for itself before it was changed, and that nothing but a reset deletes.
        stages_gone: by number, the names of stages without a store that it had before it was changed: their positions
            are in a topic with that number.
        left: stages that it had before it was changed and that may be put back as they were, since none that fed them
            over an internal topic went on without them.
        rows: by source and sink, its rows; empty where an earlier version of this package described it.
    """

    application_id: str
    stages: tuple[StageDescription, ...]
    topics: tuple[JobTopic, ...]
    gone: tuple[str, ...] = ()
    stages_gone: Mapping[int, str] = field(default_factory=dict)
    left: tuple[StageDescription, ...] = ()
    rows: Mapping[str, TopicRows] = field(default_factory=dict)

    @classmethod
    def of_topics(
        cls,
        application_id: str,
        *,
        sources: Sequence[str] = (),
        stores: Sequence[str] = ("state",),
        windowed_stores: Sequence[str] = (),
        outputs: Sequence[str] = (),
    ) -> JobDescription:
        """A job of one stage of which nothing is known but its topics: no stage is described."""
        changelogs = (
            JobTopic(
                name=changelog_topic(application_id, store),
                kind=TopicKind.CHANGELOG,
                stage=0,
                store=store,
                windowed=store in windowed_stores,
            )
            for store in stores
        )
        return cls(
            application_id=application_id,
            stages=(),
            topics=(
                *(JobTopic(name=name, kind=TopicKind.SOURCE, stage=0) for name in sources),
                *changelogs,
                *(JobTopic(name=name, kind=TopicKind.SINK, stage=0) for name in outputs),
            ),
        )

    def names(self, *kinds: TopicKind) -> tuple[str, ...]:
        """Of its topics of some kinds, in their order."""
        return tuple(topic.name for topic in self.topics if topic.kind in kinds)

    @property
    def stores(self) -> tuple[str, ...]:
        """The names of its stores, in the order of the stages."""
        return tuple(stage.store for stage in self.stages if stage.store is not None)

    @property
    def numbers(self) -> dict[str, int]:
        """By stage's name, its number."""
        return {stage.name: stage.number for stage in self.stages}

    @property
    def num_partitions(self) -> dict[int, int]:
        """By stage, how many tasks it has.

        Raises:
            ConfigurationError: that is not known yet.
        """
        unknown = [stage.source for stage in self.stages if stage.partitions is None]
        if unknown:
            raise ConfigurationError(
                f"How many partitions {unknown[0]!r} has is not known, so neither are the tasks of "
                f"{self.application_id!r}: run its deploy DAG, which finds out and keeps it."
            )
        return {stage.number: stage.partitions for stage in self.stages if stage.partitions is not None}

    @property
    def committing_stages(self) -> tuple[int, ...]:
        """The numbers of its stages, by the topics that they commit into; sorted."""
        kinds = (TopicKind.CHANGELOG, TopicKind.COMMITS)
        return tuple(sorted({topic.stage for topic in self.topics if topic.kind in kinds}))

    @property
    def own(self) -> tuple[str, ...]:
        """The names of the topics that only the application writes to."""
        return self.names(TopicKind.REPARTITION, TopicKind.CHANGELOG, TopicKind.COMMITS)

    def positions(self, stage: StageDescription) -> str:
        """The topic with the commits of a stage's tasks, and so with where they stand."""
        if stage.store is None:
            return commits_topic(self.application_id, stage.number)
        return changelog_topic(self.application_id, stage.store)

    def numbered(self, numbers: Mapping[str, int]) -> JobDescription:
        """The same, with other numbers of its stages.

        Args:
            numbers: by stage's name; all of them.
        """
        of = {stage.number: numbers[stage.name] for stage in self.stages}
        stages = tuple(dataclasses.replace(stage, number=of[stage.number]) for stage in self.stages)
        topics = tuple(
            dataclasses.replace(
                topic,
                stage=of[topic.stage],
                name=commits_topic(self.application_id, of[topic.stage])
                if topic.kind is TopicKind.COMMITS
                else topic.name,
            )
            for topic in self.topics
        )
        return dataclasses.replace(self, stages=stages, topics=in_order(topics))

    def after(self, before: JobDescription | None) -> JobDescription:
        """The same, with what an earlier version of the job leaves behind."""
        if before is None:
            return self
        left = dict.fromkeys((*before.gone, *before.own))
        kept = {stage.number for stage in self.stages if stage.store is None}
        stages = {**before.stages_gone, **{stage.number: stage.name for stage in before.stages if stage.store is None}}
        return dataclasses.replace(
            self,
            gone=tuple(name for name in left if name not in self.own),
            stages_gone={number: name for number, name in sorted(stages.items()) if number not in kept},
            left=self._left_of(before),
        )

    def _left_of(self, before: JobDescription) -> tuple[StageDescription, ...]:
        earlier = {self.positions(stage): stage for stage in (*before.left, *before.stages)}
        # A stage that goes on does not come again to what it reads now: whom it fed would never have that.
        went_on = [stage for positions, stage in earlier.items() if positions in self.own]
        missed = {topic for stage in went_on for topic in stage.outputs}
        return tuple(
            stage for positions, stage in earlier.items() if positions not in self.own and stage.source not in missed
        )

    def with_partitions(self, of_sources: Mapping[str, int]) -> JobDescription:
        """The same, with the numbers of partitions that follow from the sources'.

        Args:
            of_sources: by source, how many partitions it has; those that are missing stay unknown.
        """
        topics = tuple(
            dataclasses.replace(topic, partitions=of_sources.get(topic.like or topic.name, topic.partitions))
            for topic in self.topics
        )
        by_name = {topic.name: topic.partitions for topic in topics}
        stages = tuple(dataclasses.replace(stage, partitions=by_name[stage.source]) for stage in self.stages)
        return dataclasses.replace(self, stages=stages, topics=topics)
