from __future__ import annotations

import stat
from pathlib import Path

from airflow_provider.kit.properties_file import write_properties


def test_passwords_are_for_its_owner_alone_and_as_java_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("older")
    file.chmod(0o644)

    write_properties(file, {"a.password": 'b\\"c', "d": "ü😀"})

    assert file.read_text() == 'a.password=b\\\\"c\nd=\\u00fc\\ud83d\\ude00\n'
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]
