"""Sentences by their cause, as people read them."""

from __future__ import annotations

import pytest

from airflow_provider.common.causes import causes, listed_names

NO_RIGHT = "no right to write 'orders-out': give it"


def each(tasks: range, text: str) -> list[str]:
    return [f"task 0_{number}: {text.replace('{}', str(number))}" for number in tasks]


def test_one_reason_is_one_line_with_the_tasks_whatever_it_kept_them_from() -> None:
    sentences = [
        *each(range(0, 50, 2), f"failed on a: {NO_RIGHT}"),
        *each(range(1, 50, 2), f"failed on b: {NO_RIGHT}"),
        *each(range(50), f"no warm standby on c: {NO_RIGHT}"),
    ]

    assert causes(sentences, "abc") == (
        "tasks 0_0, 0_2, 0_4, 0_6, 0_8, 0_10 and 44 more: failed on a, b; "
        f"tasks 0_0, 0_1, 0_2, 0_3, 0_4, 0_5 and 44 more: no warm standby on c: {NO_RIGHT}",
    )


def test_reasons_that_differ_in_numbers_are_one() -> None:
    sentences = each(range(3), "failed on a: transactional id 'app-0_{}' was fenced after {} s")

    assert causes(sentences, "a") == (
        "tasks 0_0, 0_1, 0_2: failed on a: transactional id 'app-0_0' was fenced after 0 s "
        "[and 2 more that differ in numbers]",
    )


def test_other_reasons_and_single_ones_stay_as_they_are() -> None:
    sentences = ["task 0_0: failed on a: disk full", "task 1_0: failed on a: no right", "nothing is assigned yet"]

    assert causes(sentences, "ab") == tuple(sentences)


def test_what_follows_from_a_lost_instance_is_said_with_it() -> None:
    sentences = [
        "instance c: silent (running)",
        "instance d: silent (running)",
        *each(range(2), "unknown on c"),
        *each(range(2, 4), "no warm standby on c"),
        "task 0_5: no warm standby on d",
        "task 0_6: no warm standby on c: disk full",
    ]

    assert causes(sentences, "cd") == (
        "instance c: silent (running) (tasks 0_0, 0_1: unknown; tasks 0_2, 0_3: no warm standby)",
        "instance d: silent (running) (task 0_5: no warm standby)",
        "task 0_6: no warm standby on c: disk full",
    )


def test_what_keeps_a_task_from_its_work_comes_before_what_a_standby_lacks() -> None:
    sentences = ["task 0_0: no warm standby on b", "task 0_9: stands still on a for 130 s, while 5 records wait"]

    assert causes(sentences, "ab") == (sentences[1], sentences[0])


def test_sentences_that_begin_otherwise_are_one_with_the_tasks_that_they_name() -> None:
    sentences = [f"a/0_{number}/failed-2: no right; answered by run-1" for number in range(4)]

    assert causes(sentences, "a") == (
        "a/0_0/failed-2: no right; answered by run-1 [and 3 more that differ in numbers, of 0_1, 0_2, 0_3]",
    )


def test_a_fact_that_is_given_twice_is_said_once() -> None:
    assert causes(["task 0_0: failed on a: no", "task 0_0: failed on a: no", "x", "x"], "a") == (
        "task 0_0: failed on a: no",
        "x",
    )


@pytest.mark.parametrize("name", ["a", "a-1", "i.1"])
def test_name_of_an_instance_is_no_part_of_another_word(name: str) -> None:
    sentences = [f"task 0_{number}: failed on {name}: waited on {name}-topic" for number in range(2)]

    assert causes(sentences, [name]) == (f"tasks 0_0, 0_1: failed on {name}: waited on {name}-topic",)


def test_names_are_shortened_only_where_that_saves_any() -> None:
    names = [f"0_{number}" for number in range(9)]
    assert listed_names(names[:7]) == "0_0, 0_1, 0_2, 0_3, 0_4, 0_5, 0_6"
    assert listed_names(names) == "0_0, 0_1, 0_2, 0_3, 0_4, 0_5 and 3 more"
