from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider.control.records.status import InstanceState
from airflow_provider.launch.run_folder import Pulse, Silence


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pulse"


def looks_until_too_long(silence: Silence) -> int:
    return next(look for look in range(1, 1_000) if silence.lasts_too_long())


def test_start_that_never_gives_a_sign_has_its_time_and_then_that_of_a_hang(file: Path) -> None:
    silence = Silence(Pulse(file), look_s=0.5, hang_s=2.0, start_s=6.0)

    assert (looks_until_too_long(silence), silence.limit_s) == (17, 8.0)


def test_after_the_first_sign_a_silence_is_a_hang(file: Path) -> None:
    silence = Silence(Pulse(file), look_s=0.5, hang_s=2.0, start_s=6.0)
    Pulse(file).beat(InstanceState.STARTING)

    assert (looks_until_too_long(silence), silence.limit_s) == (6, 2.0)


@pytest.mark.parametrize("content", [pytest.param("", id="empty"), pytest.param(None, id="removed")])
def test_pulse_that_cannot_be_read_any_more_is_no_sign(file: Path, content: str | None) -> None:
    silence = Silence(Pulse(file), look_s=0.5, hang_s=2.0, start_s=6.0)
    Pulse(file).beat(InstanceState.RUNNING)
    assert not silence.lasts_too_long()
    file.unlink()
    if content is not None:
        file.write_text(content)

    assert looks_until_too_long(silence) == 5


def test_sign_that_is_new_ends_a_silence(file: Path) -> None:
    silence, pulse = Silence(Pulse(file), look_s=0.5, hang_s=2.0, start_s=6.0), Pulse(file)
    pulse.beat(InstanceState.RUNNING)
    for _ in range(5):
        assert not silence.lasts_too_long()

    pulse.beat(InstanceState.STOPPING)

    assert looks_until_too_long(silence) == 6
