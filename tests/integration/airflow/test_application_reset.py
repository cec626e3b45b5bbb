"""An application of four stages on a real Spark is reset by the operators: it begins again with nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.errors import InstanceError
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.operators.application_reset import RemoveStateOperator, ResetApplicationOperator
from airflow_provider.operators.topics import CreateChangelogTopicsOperator
from tests.airflow_connection import DEFAULT_CONNECTION, airflow_connection
from tests.integration.airflow.running import context
from tests.integration.streaming.changing_words import JOB, ChangingWords

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]


@pytest.fixture
def words(
    bootstrap_servers: str, application_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ChangingWords]:
    monkeypatch.setenv(DEFAULT_CONNECTION, airflow_connection(KafkaConnection(bootstrap_servers)))
    words = ChangingWords(bootstrap_servers, application_id, tmp_path)
    yield words
    words.close()


def create(words: ChangingWords, version: str) -> Any:
    operator = CreateChangelogTopicsOperator(
        task_id="create", application_id=words.id, application=str(JOB), application_args=[words.id, version]
    )
    return operator.execute(context())


def reset(words: ChangingWords, confirm: str | None) -> Any:
    return ResetApplicationOperator(task_id="reset", application_id=words.id, confirm=confirm).execute(context())


def remove_state(words: ChangingWords) -> Any:
    operator = RemoveStateOperator(
        task_id="remove",
        application_id=words.id,
        instance="i1",
        state_dir=str(words.folder / "i1"),
        confirm=words.id,
    )
    return operator.execute(context())


def own_topics(words: ChangingWords) -> set[str]:
    return {name.removeprefix(f"{words.id}-") for name in words.admin.names() if name.startswith(f"{words.id}-")}


INTERNAL = {
    *("counts-repartition", "counts-changelog", "0-commits"),
    *("letters-repartition", "letters-changelog", "2-commits"),
}
CONTROL = {"assignment", "status", "metrics", "lookups"}


def test_stages_of_all_versions_are_reset_and_all_is_counted_again(words: ChangingWords) -> None:
    create(words, "grown")
    words.start("grown")
    words.write_lines(300)
    words.wait(lambda: words.counted() and words.counted_by_letter(), "the words to be counted", 240)

    with pytest.raises(InstanceError, match=r"i1 of .* lives"):
        reset(words, words.id)
    with pytest.raises(InstanceError, match=r"i1 of .* lives"):
        remove_state(words)
    words.stop()
    # Two stages belong to an earlier version now.
    create(words, "first")
    listed = reset(words, None)
    assert not listed["deleted"]
    assert {name.removeprefix(f"{words.id}-") for name in listed["topics"]} == {"state-changelog", *INTERNAL, *CONTROL}
    assert own_topics(words) >= {*INTERNAL, *CONTROL}

    removed = remove_state(words)
    assert removed["tasks"] == ["0_0", "0_1", "1_0", "1_1", "1_2", "2_0", "2_1", "3_0", "3_1"]
    assert reset(words, words.id)["deleted"]
    assert not words.directory("i1").path.exists()
    assert own_topics(words) == {"lines", "orders", "totals", "word-counts", "letter-counts", "history"}

    # The sinks keep what is there; all of it is written once more.
    begins = words.ends()
    create(words, "grown")
    words.read_anew()
    words.write_lines(100)
    words.start("grown")
    counts, letters = (begins[f"{words.id}-{sink}"] for sink in ("word-counts", "letter-counts"))
    words.wait(lambda: words.counted(counts), "all words to be counted again", 240)
    words.wait(lambda: words.counted_by_letter(letters), "all words to be counted again by letter", 240)
    assert (words.lines_of(0), words.lines_of(2)) == (words.lines, words.lines)
    assert words.view.assignment is not None
    assert words.view.assignment.generation == 1
