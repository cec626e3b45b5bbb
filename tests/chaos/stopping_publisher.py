"""A publisher of a needless generation that stops itself in its transaction; run as a process of its own."""

from __future__ import annotations

import os
import random
import signal
import sys
from typing import Any

from airflow_provider.control.topics.publisher import AssignmentPublisher
from airflow_provider.errors import BrokerUnreachableError, FencedError
from airflow_provider.kafka.connection import KafkaConnection
from tests.chaos.fault import promoted


class StoppingPublisher(AssignmentPublisher):
    """Stands still with SIGSTOP once the first record of its transaction is with the broker."""

    def _produce(self, value: Any) -> None:
        super()._produce(value)
        self._producer.flush()
        os.kill(os.getpid(), signal.SIGSTOP)


def main(bootstrap_servers: str, application_id: str, seed: str) -> int:
    """Publish; fenced by a newer publisher is one of the two right ends."""
    chance = random.Random(seed)
    try:
        publisher = StoppingPublisher(KafkaConnection(bootstrap_servers), application_id)
        newest = publisher.view.assignment
        if newest is None:
            print("there is nothing to move")
            return 0
        moved = {
            task_id: promoted(task, chance.choice(task.standbys)) if task.standbys else task
            for task_id, task in newest.tasks.items()
        }
        publisher.publish(newest.next(moved, "moved by a publisher that stood still", carried_out=0))
    except (FencedError, BrokerUnreachableError) as error:
        print(type(error).__name__)
        return 0
    print("published")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
