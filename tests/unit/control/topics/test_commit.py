from __future__ import annotations

from airflow_provider.common.task_id import TaskId
from airflow_provider.control.topics.commits import CommitTopics
from airflow_provider.streaming import StatefulJob, stream
from airflow_provider.streaming import functions as F
from tests.builders import APPLICATION, view_of

WORDS = stream("words", schema="word STRING").group_by("word").aggregate(F.count().alias("count"), name="counts")


def test_each_stage_of_a_described_job_commits_where_its_description_says() -> None:
    view = view_of(None)
    view.job = StatefulJob(APPLICATION, WORDS.sink("word-counts")).description()

    topics = CommitTopics.of(view, "state")

    assert topics == CommitTopics(
        {0: "app-0-commits", 1: "app-counts-changelog"}, frozenset({"app-counts-repartition"})
    )
    tasks = [TaskId(0, 0), TaskId(1, 0), TaskId(1, 2), TaskId(7, 0)]
    assert topics.tasks_by_topic(tasks) == {
        "app-0-commits": {0: TaskId(0, 0)},
        "app-counts-changelog": {0: TaskId(1, 0), 2: TaskId(1, 2)},
    }


def test_job_that_was_not_described_commits_into_the_changelog_of_its_store() -> None:
    assert CommitTopics.of(view_of(None), "totals") == CommitTopics({0: "app-totals-changelog"})
