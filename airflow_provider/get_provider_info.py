"""What Airflow asks a provider about itself."""

from __future__ import annotations

from typing import Any

_NAME = "Stateful Streams"
_OPERATORS = (
    "application_reset",
    "assignment",
    "checks",
    "drill",
    "held_task_question",
    "instance_commands",
    "instance_deployment",
    "repair",
    "topics",
)
_LINKS = ("InstanceLogLink", "SparkUiLink", "FailoverRunLink")
_TEXT_FIELDS = {
    "ssl_ca_location": ("CA file", "PEM file on every worker and triggerer. Leave it empty for the system's."),
    "ssl_certificate_location": ("Client certificate", "PEM file on every worker and triggerer, for mutual TLS."),
    "ssl_key_location": ("Client key", "PEM file with the certificate's private key."),
    "ssl_key_password": ("Password of the client key", "Leave it empty where the key is not encrypted."),
    "sasl_oauthbearer_token_endpoint_url": (
        "Token endpoint",
        "With OAUTHBEARER: the URL where the client's id and secret are exchanged for tokens.",
    ),
    "sasl_oauthbearer_scope": ("Scope of tokens", "With OAUTHBEARER. Leave it empty for none."),
    "sasl_oauthbearer_extensions": ("Extensions of tokens", "With OAUTHBEARER: name=value[,name=value]."),
    "https_ca_location": ("CA file of the token endpoint", "PEM file. Leave it empty for the system's."),
}
"""Of a connection's form: label and description."""
_SECRET_FIELDS = {"ssl_key_password"}


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
        "operators": _modules(*(f"operators.{name}" for name in _OPERATORS)),
        "sensors": _modules("sensors.figures", "sensors.states"),
        "hooks": _modules("hooks.kafka_streams", "hooks.spark_instance"),
        "triggers": _modules("triggers"),
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
                    "relabeling": {
                        "login": "SASL user name or client id",
                        "password": "SASL password or client secret",
                    },
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
                        "description": "With a SASL protocol: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
                        "schema": {
                            "type": ["string", "null"],
                            "enum": ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", None],
                        },
                    },
                    **_text_fields(),
                },
            }
        ],
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    return [{"integration-name": _NAME, "python-modules": [f"airflow_provider.{name}" for name in names]}]


def _text_fields() -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, (label, description) in _TEXT_FIELDS.items():
        schema: dict[str, Any] = {"type": ["string", "null"]}
        if name in _SECRET_FIELDS:
            schema["format"] = "password"
        fields[name] = {"label": label, "description": description, "schema": schema}
    return fields
