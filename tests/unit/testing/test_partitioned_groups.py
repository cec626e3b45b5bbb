"""Records of one group in several partitions would be part-sums under one key: they are refused, or vouched for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from airflow_provider.errors import RecordError
from airflow_provider.kafka.partitioners import by_crc32, by_murmur2
from airflow_provider.streaming import functions as F
from airflow_provider.testing import InputRecord, JobTester
from airflow_provider.testing.in_memory_clients import partition_of
from tests.unit.testing.jobs import ANYWHERE, TOTALS, of_orders, order

ANN = order("ann", 2.0)
RIGHT = partition_of(b"ann", 3)
WRONG = next(n for n in range(3) if n not in (RIGHT, by_crc32([b"ann"], 3)[0]))


@pytest.mark.parametrize(
    ("record", "why"),
    [
        pytest.param(InputRecord(ANN, key="order-7"), r"has the key 'order-7', not its group 'ann'", id="another-key"),
        pytest.param(InputRecord(ANN, key=b"\xff"), r"has the key b'\\xff'", id="a-key-of-bytes"),
        pytest.param(InputRecord('{"customer":"ann"}'), "has no key, not its group 'ann'", id="no-key"),
        pytest.param(InputRecord(ANN, partition=WRONG), "use the same partitioner", id="another-partition"),
    ],
)
def test_record_whose_group_may_lie_elsewhere_too_stops_its_task(record: InputRecord, why: str) -> None:
    with JobTester(TOTALS, partitions=3) as tester:
        with pytest.raises(RecordError, match=why) as caught:
            tester.pipe_input(record)

        assert "trust_partitioning=True" in str(caught.value)
        assert tester.states() == {}


def test_record_among_others_is_left_out_and_the_others_count() -> None:
    names = [name for name in map(str, range(40)) if partition_of(name.encode(), 3) == RIGHT]
    strays = [name for name in map(str, range(40)) if name not in names and by_crc32([name.encode()], 3)[0] != RIGHT]
    job = TOTALS.on_error("dead_letter", "letters")
    with JobTester(job, partitions=3) as tester:
        tester.pipe_inputs(
            [
                *(InputRecord(order(name, 1.0), partition=RIGHT) for name in [*names, *strays[:2]]),
                InputRecord(ANN, key="other", partition=RIGHT),
                InputRecord(ANN),
            ]
        )

        assert sorted(tester.states()) == sorted([*names, "ann"])
        assert [letter.value for letter in tester.dead_letters()] == [
            *(f'{{"customer":"{name}","amount":1.0}}'.encode() for name in strays[:2]),
            b'{"customer":"ann","amount":2.0}',
        ]
        assert tester.counts.failed == 3


def test_group_whose_partitioning_is_taken_on_trust_gets_a_state_in_each_task() -> None:
    trusting = of_orders(ANYWHERE.aggregate(F.count().alias("orders")), sink="totals")
    with JobTester(trusting, partitions=3) as tester:
        tester.pipe_inputs([InputRecord(ANN, key=f"order-{n}", partition=n) for n in range(3)])

        assert [record.value["orders"] for record in tester.read_output()] == [1, 1, 1]


def test_one_partition_holds_all_of_every_group() -> None:
    with JobTester(TOTALS) as tester:
        tester.pipe_inputs([InputRecord(ANN, key="order-7"), InputRecord('{"customer":"ann","amount":1}')])

        assert tester.state("ann") == {"orders": 2, "spent": 3.0}


def test_topic_of_librdkafkas_default_partitioner_is_as_good() -> None:
    names = [str(n) for n in range(30)]
    with JobTester(TOTALS, partitions=3) as tester:
        tester.pipe_inputs(
            InputRecord(order(name, 1.0), partition=int(by_crc32([name.encode()], 3)[0])) for name in names
        )

        assert len(tester.states()) == 30


def placed(prefix: str, rule: Callable[[Sequence[bytes], int], npt.NDArray[np.int64]]) -> list[InputRecord]:
    """Orders of 40 customers, where a partitioner puts them."""
    names = [f"{prefix}{number}" for number in range(40)]
    partitions = rule([name.encode() for name in names], 3).tolist()
    return [InputRecord(order(name, 1.0), partition=at) for name, at in zip(names, partitions, strict=True)]


@pytest.mark.parametrize("go_on", [JobTester.restart, JobTester.promote_standby], ids=["restart", "failover"])
def test_record_of_another_partitioner_is_left_out_by_the_next_owner_too(go_on: Callable[[JobTester], object]) -> None:
    strays = [
        stray
        for stray, right in zip(placed("s", by_crc32), placed("s", by_murmur2), strict=True)
        if stray.partition != right.partition
    ]
    with JobTester(TOTALS.on_error("skip"), partitions=3) as tester:
        tester.pipe_inputs(placed("before", by_murmur2))
        go_on(tester)
        tester.pipe_inputs(strays[:1])
        tester.pipe_inputs(placed("after", by_murmur2))

        assert tester.counts.failed == 1
        assert len(tester.states()) == 80
