"""The folder of the kit's broker: what is in it, and which process runs on it."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from airflow_provider.common.files import create_private_file, file_end
from airflow_provider.kit.errors import BrokerFolderError
from airflow_provider.kit.process import GroupLeader

_MAX_TAIL_BYTES: Final = 64 << 10
_LOG4J = """\
status = warn
shutdownHook = disable
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {file}
appender.file.filePattern = {file}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %-5p %m (%c)%n
appender.file.policy.type = SizeBasedTriggeringPolicy
appender.file.policy.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
"""


@dataclass(frozen=True, slots=True)
class Tenant:
    """The process that runs, or ran, on a folder."""

    leader: GroupLeader
    port: int
    controller_port: int


class BrokerFolder:
    """Owns the truth of which process runs on the folder; Kafka owns what is in `data`.

    ::

        broker.json         the process that was started last, and its ports
        lock                held while a process starts or ends a broker here
        data/               Kafka's; appears whole, once it is formatted
        kafka.log           Kafka's log
        console.log         what Java itself says, for instance when it crashes
        server.properties, log4j2.properties    written at every start
    """

    def __init__(self, root: Path) -> None:
        self.root, self.data = root, root / "data"
        self.log_file, self.console_file = root / "kafka.log", root / "console.log"
        self.properties_file, self.log4j_file = root / "server.properties", root / "log4j2.properties"

    def tenant(self) -> Tenant | None:
        """Return the process that was started here last, alive or dead; None when there was none."""
        try:
            note = json.loads((self.root / "broker.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return Tenant(GroupLeader(note["pid"], note["started"]), note["port"], note["controller_port"])

    def living_tenant(self) -> Tenant | None:
        """Return the process that runs here now; None when none does."""
        tenant = self.tenant()
        return tenant if tenant is not None and tenant.leader.is_alive() else None

    def write_tenant(self, tenant: Tenant) -> None:
        """Note which process runs here. The note of a dead process may stay: it keeps the ports."""
        note = {
            "pid": tenant.leader.pid,
            "started": tenant.leader.started,
            "port": tenant.port,
            "controller_port": tenant.controller_port,
        }
        scratch = self.root / "broker.json.new"
        scratch.write_text(json.dumps(note), encoding="utf-8")
        scratch.replace(self.root / "broker.json")

    def write_settings(self, properties: Mapping[str, str], log_level: str) -> None:
        """Write what Kafka and its log read at their start; the properties for this user alone."""
        write_properties(self.properties_file, properties)
        log4j = _LOG4J.format(file=self.log_file, level=log_level.lower())
        self.log4j_file.write_text(log4j, encoding="utf-8")

    def is_formatted(self) -> bool:
        """Return whether `data` was made by a broker before.

        Raises:
            BrokerFolderError: `data` holds something else.
        """
        if (self.data / "meta.properties").is_file():
            return True
        if self.data.exists():
            raise BrokerFolderError(
                f"Found {self.data} without Kafka's meta.properties, expected it absent or made by the kit's broker. "
                "Choose another folder, or remove that one if nothing in it is needed."
            )
        return False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep others from starting or ending a broker here; they wait. A dead holder holds nothing."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def log_sizes(self) -> Mapping[Path, int]:
        """By log, its length in bytes: what comes behind is of the next start."""
        return {path: path.stat().st_size for path in (self.console_file, self.log_file) if path.is_file()}

    def last_lines(self, count: int = 20, after: Mapping[Path, int] = MappingProxyType({})) -> str:
        """Return the end of both logs, for an error's text.

        Args:
            after: by log, how much of it is not to be shown (`log_sizes`); one that was emptied since is shown whole.
        """
        lines: list[str] = []
        for path, size in self.log_sizes().items():
            before = after.get(path, 0)
            new = size - before if size >= before else size
            lines += file_end(path, min(new, _MAX_TAIL_BYTES)).splitlines()[-count:]
        return "\n".join(lines) or "(nothing was logged)"


def write_properties(file: Path, properties: Mapping[str, str]) -> None:
    """Write a file that this user alone may read, in place of one that is there.

    Args:
        properties: by name the value, in which a backslash stands for itself.
    """
    lines = [f"{name}={_escaped(value)}\n" for name, value in properties.items()]
    scratch = file.with_name(f"{file.name}.new")
    scratch.unlink(missing_ok=True)
    create_private_file(scratch, "".join(lines).encode())
    scratch.replace(file)


def _escaped(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n")
    # Java reads such a file as ISO 8859-1, and takes UTF-16 for the rest.
    units = ((char, char.encode("utf-16-be").hex()) for char in escaped)
    return "".join(
        char if char.isascii() else "".join(f"\\u{code[at : at + 4]}" for at in range(0, len(code), 4))
        for char, code in units
    )
