"""A running application of two stages gets two more and an aggregate, and refuses what it would misread, as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.control.records.status import InstanceState
from airflow_provider.errors import ConfigurationError
from tests.integration.streaming.changing_words import ChangingWords
from tests.integration.streaming.changing_words_job import job_of

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]


@pytest.fixture
def words(bootstrap_servers: str, application_id: str, tmp_path: Path) -> Iterator[ChangingWords]:
    words = ChangingWords(bootstrap_servers, application_id, tmp_path)
    yield words
    words.close()


def create(words: ChangingWords, version: str) -> tuple[str, ...]:
    return words.create(job_of(words.id, version))


def test_stages_are_added_and_a_change_that_one_refuses_touches_none(words: ChangingWords) -> None:
    create(words, "first")
    words.start("first")
    words.write_lines(300)
    words.wait(words.counted, "the words to be counted", 240)
    words.stop()

    # Two stages, a store and an aggregate more: what is there goes on, what is new begins.
    added = ("letters-repartition", "letters-changelog", "2-commits", "letter-counts")
    assert create(words, "grown") == tuple(f"{words.id}-{name}" for name in added)
    words.start("grown")
    since = words.write_lines(300)
    words.wait(words.counted, "the words to be counted by the version with more stages", 240)
    words.wait(words.counted_by_letter, "the words of all lines to be counted by letter", 240)
    lengths = {word: value["length"] for word, value in words.values("word-counts").items() if word in since}
    assert lengths == {word: len(word) for word in since}
    words.stop()

    # What can be known without Spark the deployment refuses, the rest an instance before it opens a task.
    words.write_lines(200)
    before = words.ends()
    with pytest.raises(ConfigurationError, match=r"max\(length\) became min\(length\)"):
        create(words, "shortest")
    assert create(words, "as-text") == ()
    words.launch_version("as-text")
    ended = words.wait_for_state("i1", InstanceState.ENDED, 240)
    assert "max(length) of type bigint became max(length) of type string" in str(ended.error)
    assert words.ends() == before

    # Undone, it goes on as if nothing had been, also with its sinks in another order.
    assert create(words, "turned") == ()
    words.start("turned")
    words.wait(words.counted, "what was written meanwhile to be counted", 240)
    words.wait(words.counted_by_letter, "what was written meanwhile to be counted by letter", 240)
    assert (words.lines_of(0), words.lines_of(2)) == (words.lines, words.lines)
