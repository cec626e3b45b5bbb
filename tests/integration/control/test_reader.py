"""Who looks at an application sees what is in force, also where its control topics were created again."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient

from airflow_provider.control.topics.reader import ControlReader
from airflow_provider.control.topics.writer import write_control
from airflow_provider.kafka.connection import KafkaConnection
from airflow_provider.kafka.topic_admin import TopicAdmin
from airflow_provider.kafka.topic_spec import control_specs
from tests.builders import assigned
from tests.waiting import wait_until


def test_lower_generation_of_a_topic_that_was_created_again_is_in_force(
    bootstrap_servers: str, application_id: str
) -> None:
    connection, specs = KafkaConnection(bootstrap_servers), control_specs(application_id, 1)
    TopicAdmin(connection).ensure(specs)
    write_control(connection, application_id, assigned("a", generation=50))
    with ControlReader(connection, application_id, follows=True) as reader:
        assert reader.read_to_end().assignment == assigned("a", generation=50)

        admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        for deleted in admin.delete_topics([spec.name for spec in specs]).values():
            deleted.result(30)
        wait_until(lambda: all(TopicAdmin(connection).describe(spec.name) is None for spec in specs), 30, "their end")
        TopicAdmin(connection).ensure(specs)
        write_control(connection, application_id, assigned("c", generation=1))

        def sees() -> bool:
            reader.poll(0.1)
            return reader.view.assignment == assigned("c", generation=1)

        wait_until(sees, 60, "the new assignment")
