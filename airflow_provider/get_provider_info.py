"""What Airflow asks a provider about itself."""

from __future__ import annotations

from typing import Any

__all__ = ["get_provider_info"]

_NAME = "Stateful Streams"
_OPERATORS = (
    "application_reset",
    "blackout_check",
    "changelog_replay",
    "changelog_topics",
    "drill_readiness",
    "failover",
    "failover_report",
    "fault_injection",
    "held_task_question",
    "history",
    "instance_deployment",
    "instance_stop",
    "processing_pause",
    "promotion",
    "recovery_check",
    "repair_list",
    "slo_check",
    "standby_certification",
    "standby_snapshot",
    "state_removal",
    "task_assignment",
    "topic_check",
)
_LINKS = ("instance_log.InstanceLogLink", "spark_ui.SparkUiLink", "failover_run.FailoverRunLink")
_SENSORS = (
    "certified_standbys",
    "changelog_growth",
    "disk_space",
    "drill_age",
    "fault_end",
    "incident_resolution",
    "instance_state",
    "predicted_rto",
    "source_lag",
    "standby_lag",
    "task_state",
)


def get_provider_info() -> dict[str, Any]:
    """Of the form that ``airflow/provider_info.schema.json`` describes."""
    return {
        "package-name": "airflow-provider-stateful-streams",
        "name": _NAME,
        "description": "PySpark stateful streams with the fault tolerance of Kafka Streams.",
        "integrations": [
            {
                "integration-name": _NAME,
                "external-doc-url": "https://kafka.apache.org/documentation/streams/",
                "tags": ["software"],
            }
        ],
        "operators": [
            {
                "integration-name": _NAME,
                "python-modules": [f"airflow_provider.operators.{name}" for name in _OPERATORS],
            }
        ],
        "sensors": [
            {
                "integration-name": _NAME,
                "python-modules": [f"airflow_provider.sensors.{name}" for name in _SENSORS],
            }
        ],
        "hooks": [
            {
                "integration-name": _NAME,
                "python-modules": ["airflow_provider.hooks.kafka_streams", "airflow_provider.hooks.spark_instance"],
            }
        ],
        "triggers": [
            {
                "integration-name": _NAME,
                "python-modules": ["airflow_provider.triggers.control", "airflow_provider.triggers.incident"],
            }
        ],
        "extra-links": [f"airflow_provider.links.{name}" for name in _LINKS],
        "config": {
            "stateful_streams": {
                "description": "Of PySpark stateful streams.",
                "options": {
                    "log_url": {
                        "description": "Where a person reads the log of an instance, a file of its host, in a browser: "
                        "a URL with any of {application_id}, {instance}, {incarnation}, {host} and {log_file} in it. "
                        "Without it, tasks have no button to the log.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "https://logs.example.com/{host}{log_file}",
                        "default": None,
                    }
                },
            }
        },
        "connection-types": [
            {
                "connection-type": "kafkastreams",
                "hook-class-name": "airflow_provider.hooks.kafka_streams.KafkaStreamsHook",
                "hook-name": "Kafka Streams",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "extra"],
                    "relabeling": {"login": "SASL user name", "password": "SASL password"},
                    "placeholders": {"host": "broker.example.com", "port": "9092"},
                },
                "conn-fields": {
                    "bootstrap_servers": {
                        "label": "Bootstrap servers",
                        "description": "host:port[,host:port]. Leave it empty to use host and port.",
                        "schema": {"type": ["string", "null"]},
                    },
                    "security_protocol": {
                        "label": "Security protocol",
                        "description": "The protocol of the connections to the brokers.",
                        "schema": {
                            "type": ["string", "null"],
                            "enum": ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"],
                            "default": "PLAINTEXT",
                        },
                    },
                    "sasl_mechanism": {
                        "label": "SASL mechanism",
                        "description": "With a SASL protocol: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.",
                        "schema": {
                            "type": ["string", "null"],
                            "enum": ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", None],
                        },
                    },
                    "ssl_ca_location": {
                        "label": "CA file",
                        "description": "PEM file on every worker and triggerer. Leave it empty for the system's.",
                        "schema": {"type": ["string", "null"]},
                    },
                },
            }
        ],
    }
