"""The settings of the demo's own Airflow, as environment variables."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# The settings of another Airflow on this machine must not reach the demo's.
_FOREIGN: Final = ("AIRFLOW", "_AIRFLOW")


@dataclass(frozen=True)
class AirflowHome:
    """An Airflow for one machine and one user, with nothing in it but the DAGs of one folder.

    Args:
        root: its AIRFLOW_HOME.
        dags: folder of the DAGs.
        port: of its API server, on loopback.
        bootstrap_servers: of the Kafka cluster, which becomes the connection ``kafka_streams_default``.
        spark_master: of the connection ``spark_default``.
    """

    root: Path
    dags: Path
    port: int
    bootstrap_servers: str
    spark_master: str

    @property
    def address(self) -> str:
        """Of its pages and its API."""
        return f"http://127.0.0.1:{self.port}"

    def to_environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of its components.

        Its secrets are new with every call, so all components must share one.

        Args:
            inherited: of this process.
        """
        kept = {name: value for name, value in inherited.items() if not name.startswith(_FOREIGN)}
        host, _, port = self.bootstrap_servers.partition(":")
        connections = {
            "KAFKA_STREAMS_DEFAULT": {"conn_type": "kafkastreams", "host": host, "port": int(port)},
            "SPARK_DEFAULT": {"conn_type": "spark", "host": self.spark_master},
        }
        return {
            **kept,
            **{f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in connections.items()},
            **{f"AIRFLOW__{name.upper()}": value for name, value in self._settings().items()},
            "AIRFLOW_HOME": str(self.root),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "NO_PROXY": ",".join(filter(None, ("127.0.0.1", "localhost", kept.get("NO_PROXY")))),
            "no_proxy": ",".join(filter(None, ("127.0.0.1", "localhost", kept.get("no_proxy")))),
            "PYTHONUNBUFFERED": "1",
        }

    def _settings(self) -> dict[str, str]:
        return {
            "core__dags_folder": str(self.dags),
            "core__load_examples": "False",
            "core__executor": "LocalExecutor",
            "core__parallelism": "4",
            "core__dags_are_paused_at_creation": "False",
            "core__simple_auth_manager_all_admins": "True",
            "core__fernet_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "core__execution_api_server_url": f"{self.address}/execution/",
            "core__hostname_callable": "socket.gethostname",
            "database__sql_alchemy_conn": f"sqlite:///{self.root / 'airflow.db'}",
            "api__host": "127.0.0.1",
            "api__port": str(self.port),
            "api__base_url": self.address,
            "api__workers": "1",
            "api__secret_key": secrets.token_urlsafe(32),
            "api_auth__jwt_secret": secrets.token_urlsafe(64),
            # Two cores: what happens seldom may take its time, what a failover waits for may not.
            "scheduler__scheduler_idle_sleep_time": "0.2",
            "scheduler__enable_health_check": "False",
            "scheduler__pool_metrics_interval": "60",
            "scheduler__parsing_cleanup_interval": "300",
            "scheduler__trigger_timeout_check_interval": "60",
            # Against the loss of a deferral's exit behind its own event.
            "workers__min_heartbeat_interval": "1",
            # The DAGs do not change: read them once.
            "dag_processor__parsing_processes": "1",
            "dag_processor__min_file_process_interval": "3600",
            "dag_processor__refresh_interval": "3600",
            "dag_processor__stale_dag_threshold": "7200",
            "dag_processor__print_stats_interval": "0",
            "dag_processor__bundle_refresh_check_interval": "60",
            "logging__base_log_folder": str(self.root / "logs"),
            "logging__colored_console_log": "False",
            "usage_data_collection__enabled": "False",
        }
