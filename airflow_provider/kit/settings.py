"""The settings of the kit's broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_provider.kit.ports import LOOPBACK, free_ports

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """A broker that is its own controller, for one machine and one user.

    The defaults fit two cores: few partitions in the internal topics, so that a coordinator is loaded at once; a
    cleaner and a sweep of timed-out transactions that run every second instead of every ten or fifteen.

    Args:
        port: where clients connect, on loopback, without a login.
        controller_port: where the broker's own controller listens, on loopback.
        node_id: the broker's number. A folder keeps the number that it was formatted with.
        default_partitions: partitions of a topic that is made without a number of its own.
        cleaner_backoff_ms: how long the log cleaner rests when there is nothing to compact.
        session_timeout_ms: how long a broker that was killed is held for alive: its next start waits for that.
        transaction_sweep_ms: how often transactions that outlived their timeout are looked for and aborted.
        overrides: broker properties that take precedence, as Kafka names them; never in ``repr``.
    """

    directory: Path
    port: int
    controller_port: int
    node_id: int = 1
    default_partitions: int = 1
    heap_bytes: int = 512 * _MIB
    log_level: str = "WARN"
    cleaner_backoff_ms: int = 1_000
    session_timeout_ms: int = 4_000
    transaction_sweep_ms: int = 1_000
    die_with_parent: bool = False
    overrides: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    java_options: tuple[str, ...] = ()

    @classmethod
    def on_free_ports(cls, directory: Path, **others: Any) -> BrokerSettings:
        """Settings on two ports that are free now; `others` are the remaining fields."""
        port, controller_port = free_ports(2)
        return cls(directory=directory, port=port, controller_port=controller_port, **others)

    @property
    def bootstrap_servers(self) -> str:
        """What a client is given to connect."""
        return f"{LOOPBACK}:{self.port}"

    def to_properties(self, data_dir: Path) -> dict[str, str]:
        """As Kafka's `server.properties`."""
        served = f"CLIENT://{self.bootstrap_servers}"
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "controller.quorum.voters": f"{self.node_id}@{LOOPBACK}:{self.controller_port}",
            "listeners": f"{served},CONTROLLER://{LOOPBACK}:{self.controller_port}",
            "advertised.listeners": served,
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "CLIENT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(data_dir),
            "auto.create.topics.enable": "false",
            "num.partitions": str(self.default_partitions),
            "broker.session.timeout.ms": str(self.session_timeout_ms),
            "broker.heartbeat.interval.ms": str(max(100, self.session_timeout_ms // 8)),
            "group.initial.rebalance.delay.ms": "0",
            # One node can hold one copy.
            "default.replication.factor": "1",
            "min.insync.replicas": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            # A lone broker has no one to hand its partitions to. With this on they have no leader while it stops, and
            # Kafka 4.3 takes a partition without one for deleted: a transaction that is committed then never gets its
            # marker there (docs/faults.md, "Brokers").
            "controlled.shutdown.enable": "false",
            # 50 by default, each to be created, opened and loaded.
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.num.partitions": "4",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(self.transaction_sweep_ms),
            # What is tried has times of its own: by default the first look, after 30 s, takes what is a week old.
            "log.retention.ms": "-1",
            "log.cleaner.backoff.ms": str(self.cleaner_backoff_ms),
            "log.cleaner.dedupe.buffer.size": str(16 * _MIB),  # 128 MiB of the heap by default
            "num.network.threads": "2",
            "num.io.threads": "4",
        }
        return properties | dict(self.overrides)

    def to_java_options(self) -> list[str]:
        """As arguments of `java`."""
        heap_mib = max(1, self.heap_bytes // _MIB)
        return [
            f"-Xmx{heap_mib}m",
            f"-Xms{min(heap_mib, 256)}m",
            "-XX:+UseSerialGC",  # the parallel collectors cost memory and threads that two cores do not have
            "-XX:+ExitOnOutOfMemoryError",
            "-Djava.awt.headless=true",
            *self.java_options,
        ]
