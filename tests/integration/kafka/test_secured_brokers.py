"""Both kinds of clients through each way of logging in, on a broker that has them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from cryptography.hazmat.primitives.serialization import PrivateFormat

from airflow_provider.changelog.reader import ChangelogReader
from airflow_provider.common.files import create_private_file
from airflow_provider.control.records.command import Command, CommandKind
from airflow_provider.control.topics.follower import ControlFollower
from airflow_provider.control.topics.publisher import AssignmentPublisher
from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.writer import write_control
from airflow_provider.errors import BrokerUnreachableError, LoginRefusedError, StatefulStreamsError
from airflow_provider.kafka.broker_features import transaction_version
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import TopicSpec
from tests.certificates import Authority
from tests.integration.secured_broker import PASSWORD, SECRETS, TOKENS_BY_TLS, SecuredBroker
from tests.secret_scan import files_with

pytestmark = pytest.mark.xdist_group("secured")

# In a process of its own: a Spark context in the tests' process would be everybody's. The connections come in a file.
READER = """
import json, pathlib, sys
from pyspark.sql import SparkSession
from airflow_provider.jars.jar_sets import spark_kafka_jars
from airflow_provider.kafka.connection import KafkaConnection

given, answer, topic = sys.argv[1:]
jars = ",".join(map(str, spark_kafka_jars()))
session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.jars", jars)
spark = session.config("spark.driver.memory", "512m").getOrCreate()
assign = json.dumps({topic: [0]})
found = {}
for way, connection in json.loads(pathlib.Path(given).read_text()).items():
    options = KafkaConnection(**connection).to_spark_options()
    try:
        rows = spark.read.format("kafka").options(**options, assign=assign, startingOffsets="earliest").load().collect()
        found[way] = [bytes(row.value).decode() for row in rows]
    except Exception as error:
        found[way] = [f"{type(error).__name__}: {str(error)[:500]}"]
pathlib.Path(answer).write_text(json.dumps(found))
"""

WAYS = ["TLS", "MTLS", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with SecuredBroker.running(tmp_path_factory.mktemp("secured")) as running:
        yield running


def sent_and_read(connection: KafkaConnection, topic: str) -> bytes | None:
    """What a consumer finds in a new topic after a transaction."""
    TopicAdmin(connection, timeout_s=30.0).ensure([TopicSpec(name=topic, partitions=1, required=frozenset())])
    producer = Producer(connection.to_client_config() | {"transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"value", b"key")
    producer.commit_transaction(30)
    config: dict[str, Any] = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(connection.to_client_config() | config)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.poll(30.0)
    consumer.close()
    return found.value() if found is not None and found.error() is None else None


@pytest.mark.parametrize("way", [*WAYS, TOKENS_BY_TLS])
def test_librdkafkas_clients_come_in(way: str, secured: SecuredBroker, application_id: str) -> None:
    assert sent_and_read(secured.connections[way], application_id) == b"value"


@pytest.mark.parametrize("way", ["TLS", "MTLS", "SCRAM-SHA-512"])
def test_version_of_transactions_is_told_before_a_login(way: str, secured: SecuredBroker) -> None:
    assert transaction_version(secured.connections[way]) == 2


def test_token_is_asked_for_with_the_scope_of_the_connection(secured: SecuredBroker, application_id: str) -> None:
    sent_and_read(secured.connections["OAUTHBEARER"], application_id)

    assert set(secured.tokens.scopes) == {"streams"}


@pytest.mark.parametrize(
    ("way", "changes"),
    [
        pytest.param("TLS", {"ssl_ca_location": None}, id="authority-not-trusted"),
        pytest.param("MTLS", {"ssl_certificate_location": None, "ssl_key_location": None}, id="no-certificate"),
        pytest.param("PLAIN", {"sasl_password": f"{PASSWORD}!"}, id="plain-wrong-password"),
        pytest.param("SCRAM-SHA-512", {"sasl_password": f"{PASSWORD}!"}, id="scram-wrong-password"),
        pytest.param("SCRAM-SHA-512", {"sasl_mechanism": "SCRAM-SHA-256"}, id="another-mechanism"),
        pytest.param("SCRAM-SHA-512", {"security_protocol": "SASL_PLAINTEXT", "ssl_ca_location": None}, id="no-tls"),
        pytest.param("OAUTHBEARER", {"sasl_password": f"{PASSWORD}!"}, id="wrong-client-secret"),
        pytest.param(TOKENS_BY_TLS, {"https_ca_location": None}, id="authority-of-tokens-not-trusted"),
    ],
)
def test_who_lacks_something_stays_outside_and_no_error_shows_a_secret(
    way: str, changes: dict[str, Any], secured: SecuredBroker
) -> None:
    connection = dataclasses.replace(secured.connections[way], **changes)

    with pytest.raises(StatefulStreamsError) as refused:
        TopicAdmin(connection, timeout_s=5.0).names()

    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize("way", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_login_that_is_refused_says_whose_and_how(way: str, secured: SecuredBroker) -> None:
    connection = dataclasses.replace(secured.connections[way], sasl_password="another")

    with pytest.raises(LoginRefusedError, match=rf"The login of 'app' by {way} is refused \(.*correct user name"):
        TopicAdmin(connection, timeout_s=3.0).names()


def test_each_client_says_that_its_login_is_refused(secured: SecuredBroker) -> None:
    connection = dataclasses.replace(secured.connections["PLAIN"], sasl_password="another")

    def by_follower() -> None:
        async def follow() -> None:
            async with ControlFollower(connection, "app"):
                pass

        asyncio.run(follow())

    def by_changelog_reader() -> None:
        with closing(ChangelogReader(connection, "app")) as reader:
            reader.bounds(("app-state-changelog", 0), timeout_s=3.0)

    stop = Command(id="c", kind=CommandKind.STOP, instance="a")
    asks: list[Callable[[], object]] = [
        lambda: ControlReader(connection, "app").read_to_end(3.0),
        lambda: AssignmentPublisher(connection, "app", 3.0),
        lambda: write_control(connection, "app", stop, timeout_s=3.0),
        by_follower,
        by_changelog_reader,
    ]
    for ask in asks:
        with pytest.raises(LoginRefusedError, match="The login of 'app' by PLAIN is refused"):
            ask()


@pytest.mark.parametrize(
    "certificate", [{"ssl_certificate_location": None, "ssl_key_location": None}, {}], ids=["none", "expired"]
)
def test_certificate_of_a_client_that_is_refused_is_said_to_be(
    certificate: dict[str, Any], secured: SecuredBroker
) -> None:
    expired = secured.authority.issue("expired", days=-0.5)
    files = {"ssl_certificate_location": str(expired.certificate), "ssl_key_location": str(expired.key)}
    changes = files | {"ssl_key_password": None} | certificate
    connection = dataclasses.replace(secured.connections["MTLS"], **changes)

    with pytest.raises(BrokerUnreachableError, match="refuses the certificate of this client, or that it shows none"):
        TopicAdmin(connection, timeout_s=5.0).names()


def test_certificate_of_another_authority_stays_outside(secured: SecuredBroker, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other").issue("app")
    connection = dataclasses.replace(
        secured.connections["MTLS"],
        ssl_certificate_location=str(other.certificate),
        ssl_key_location=str(other.key),
        ssl_key_password=None,
    )

    with pytest.raises(StatefulStreamsError):
        TopicAdmin(connection, timeout_s=5.0).names()


def test_key_of_another_form_serves_as_well(secured: SecuredBroker, application_id: str) -> None:
    old = secured.authority.issue("old", form=PrivateFormat.TraditionalOpenSSL)
    connection = dataclasses.replace(
        secured.connections["MTLS"],
        ssl_certificate_location=str(old.certificate),
        ssl_key_location=str(old.key),
        ssl_key_password=None,
    )

    assert sent_and_read(connection, application_id) == b"value"


@pytest.fixture(scope="module")
def read_by_spark(secured: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """By way of coming in, what one Spark found in a topic with one record, or its error."""
    folder, topic = tmp_path_factory.mktemp("spark"), "read-by-spark"
    assert sent_and_read(KafkaConnection(secured.bootstrap_servers), topic) == b"value"
    given, answer = folder / "connections.json", folder / "answer.json"
    connections = {way: dataclasses.asdict(secured.connections[way]) for way in WAYS}
    create_private_file(given, json.dumps(connections).encode())
    for_java = {"SPARK_SUBMIT_OPTS": " ".join(secured.connections["OAUTHBEARER"].to_java_options())}
    log = folder / "spark.log"
    with log.open("wb") as out:
        subprocess.run(
            [sys.executable, "-c", READER, str(given), str(answer), topic],
            check=True,
            env=os.environ | {**for_java, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=out,
            stderr=out,
        )
    given.unlink()
    assert files_with(SECRETS, folder) == [], "what Spark says"
    read: dict[str, list[str]] = json.loads(answer.read_text())
    return read


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_spark_comes_in(way: str, read_by_spark: dict[str, list[str]]) -> None:
    assert read_by_spark[way] == ["value"]
