from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from airflow_provider.kafka.partitioners import by_crc32, by_murmur2
from airflow_provider.streaming.worker.tasks.task_memory import PartitionCheck

KEYS = [f"customer-{number}".encode() for number in range(60)]
Rule = Callable[[Sequence[bytes], int], npt.NDArray[np.int64]]


def in_partition(number: int, rule: Rule) -> list[bytes]:
    return [key for key, at in zip(KEYS, rule(KEYS, 4).tolist(), strict=True) if at == number]


@pytest.mark.parametrize("rule", [by_murmur2, by_crc32])
def test_topic_of_one_partitioner_has_no_strays(rule: Rule) -> None:
    check = PartitionCheck(2, 4)
    keys = in_partition(2, rule)

    assert check.strays(keys[:1]) == check.strays(keys[1:]) == check.strays([]) == []


@pytest.mark.parametrize(("most", "few"), [(by_murmur2, by_crc32), (by_crc32, by_murmur2)])
def test_groups_that_another_partitioner_put_here_are_strays(most: Rule, few: Rule) -> None:
    check = PartitionCheck(2, 4)
    right = in_partition(2, most)
    wrong = [key for key in in_partition(2, few) if key not in right]

    assert check.strays([*wrong[:2], *right]) == wrong[:2]
    assert check.strays(wrong) == wrong
    assert check.strays(right) == []


def test_groups_that_nobody_would_put_here_are_strays() -> None:
    here = {*in_partition(2, by_murmur2), *in_partition(2, by_crc32)}
    elsewhere = [key for key in KEYS if key not in here]

    assert PartitionCheck(2, 4).strays(elsewhere) == elsewhere


def test_groups_of_an_earlier_owner_show_the_partitioner_before_a_stray_does() -> None:
    right = in_partition(2, by_murmur2)
    wrong = [key for key in in_partition(2, by_crc32) if key not in right]
    check = PartitionCheck(2, 4, lambda: [wrong[0], *right[:5]])

    assert check.strays(wrong[1:2]) == wrong[1:2]
    assert check.strays(right[5:]) == []


def test_only_some_of_the_groups_of_an_earlier_owner_are_read_and_once() -> None:
    read: list[int] = []

    def known() -> Iterator[bytes]:
        for number in itertools.count():
            read.append(number)
            yield b"customer"

    check = PartitionCheck(0, 1, known)
    check.strays([b"a"])
    check.strays([b"b"])

    assert read == list(range(100))


def test_groups_that_could_not_be_read_are_asked_for_again() -> None:
    right = in_partition(2, by_murmur2)
    wrong = [key for key in in_partition(2, by_crc32) if key not in right]
    answers: list[list[bytes] | OSError] = [OSError("disk"), right]

    def known() -> list[bytes]:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    check = PartitionCheck(2, 4, known)
    with pytest.raises(OSError, match="disk"):
        check.strays(wrong)

    assert check.strays(wrong) == wrong
