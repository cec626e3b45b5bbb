"""The settings of the kit's broker, and of a door at which clients have to say who they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from airflow_provider.kafka.connection import jaas_config
from airflow_provider.kit.ports import LOOPBACK, free_ports

_OF_TOKENS: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuredListener:
    """One more listener of a broker, on loopback.

    Who comes is the user of that name for the ACLs: the one who logged in, or the CN of the client's certificate.

    Args:
        protocol: ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``.
        mechanism: ``PLAIN``, ``SCRAM-SHA-256``, ``SCRAM-SHA-512`` or ``OAUTHBEARER``; needed with a SASL protocol.
        users: by name the password, for PLAIN and SCRAM; never in ``repr``. Those of SCRAM are kept in the cluster.
        keystore: PEM file with the broker's private key (PKCS 8) and its certificate; needed with an SSL protocol.
        client_authorities: PEM file with the authorities of the clients' certificates; None asks for none.
        jwks_url: for OAUTHBEARER: where the keys are that sign tokens.
        audience: for OAUTHBEARER: what a token has to be for.
    """

    name: str
    port: int
    protocol: str
    mechanism: str | None = None
    users: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    keystore: Path | None = None
    client_authorities: Path | None = None
    jwks_url: str | None = None
    audience: str | None = None

    @property
    def bootstrap_servers(self) -> str:
        """What a client is given to connect."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def scram_users(self) -> Mapping[str, str]:
        """Those that are to be stored in the cluster, by name the password."""
        return self.users if (self.mechanism or "").startswith("SCRAM-") else MappingProxyType({})

    def to_properties(self) -> dict[str, str]:
        """As Kafka's `server.properties`, with passwords."""
        properties: dict[str, str] = {}
        if self.protocol.endswith("SSL"):
            properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.keystore)}
        if self.client_authorities is not None:
            properties |= {
                "ssl.client.auth": "required",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.client_authorities),
                "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
            }
        if self.mechanism is not None:
            properties["sasl.enabled.mechanisms"] = self.mechanism
            known = {f"user_{name}": password for name, password in self.users.items()}
            options = known if self.mechanism == "PLAIN" else {}
            properties[f"{self.mechanism.lower()}.sasl.jaas.config"] = jaas_config(self.mechanism, options)
        if self.jwks_url is not None:
            properties["oauthbearer.sasl.server.callback.handler.class"] = _OF_TOKENS
            properties["sasl.oauthbearer.jwks.endpoint.url"] = self.jwks_url
        if self.audience is not None:
            properties["sasl.oauthbearer.expected.audience"] = self.audience
        return {f"listener.name.{self.name.lower()}.{name}": value for name, value in properties.items()}


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
        secured_listeners: further ones, at which clients say who they are.
        acls: whether who has a name may do only what ACLs allow; who has none, as at `port`, may do all.
        overrides: broker properties that take precedence, as Kafka names them.
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
    secured_listeners: tuple[SecuredListener, ...] = ()
    acls: bool = False
    die_with_parent: bool = False
    overrides: tuple[tuple[str, str], ...] = ()
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
        """As Kafka's `server.properties`.

        Listeners have names of their own, so that a protocol is one entry of the map.
        """
        clients = [("CLIENT", "PLAINTEXT", self.port)]
        clients += [(listener.name, listener.protocol, listener.port) for listener in self.secured_listeners]
        served = ",".join(f"{name}://{LOOPBACK}:{port}" for name, _, port in clients)
        protocols = ",".join(f"{name}:{protocol}" for name, protocol, _ in clients)
        properties = {
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "controller.quorum.voters": f"{self.node_id}@{LOOPBACK}:{self.controller_port}",
            "listeners": f"{served},CONTROLLER://{LOOPBACK}:{self.controller_port}",
            "advertised.listeners": served,
            "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
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
            "log.cleaner.backoff.ms": str(self.cleaner_backoff_ms),
            "log.cleaner.dedupe.buffer.size": str(16 * _MIB),  # 128 MiB of the heap by default
            "num.network.threads": "2",
            "num.io.threads": "4",
        }
        for listener in self.secured_listeners:
            properties |= listener.to_properties()
        if self.acls:
            properties["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            properties["super.users"] = "User:ANONYMOUS"
        return properties | dict(self.overrides)

    def to_java_options(self) -> list[str]:
        """As arguments of `java`."""
        heap_mib = max(1, self.heap_bytes // _MIB)
        urls = {listener.jwks_url for listener in self.secured_listeners if listener.jwks_url}
        return [
            f"-Xmx{heap_mib}m",
            f"-Xms{min(heap_mib, 256)}m",
            "-XX:+UseSerialGC",  # the parallel collectors cost memory and threads that two cores do not have
            "-XX:+ExitOnOutOfMemoryError",
            "-Djava.awt.headless=true",
            *([f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={','.join(sorted(urls))}"] if urls else []),
            *self.java_options,
        ]
