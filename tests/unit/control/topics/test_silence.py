from __future__ import annotations

from airflow_provider.control.topics.liveness import SilenceClock


def test_silence_is_counted_from_the_last_word() -> None:
    clock = SilenceClock()
    clock.heard("a", 10.0)
    clock.heard("b", 12.0)

    assert clock.silent_for_s(15.0) == {"a": 5.0, "b": 3.0}
    assert clock.longest_s(["a", "b"], 15.0) == 5.0


def test_what_the_observer_could_not_hear_does_not_count() -> None:
    clock = SilenceClock()
    clock.heard("a", 10.0)
    clock.restart(100.0)

    assert clock.silent_for_s(101.0) == {"a": 1.0}


def test_instance_never_heard_of_is_not_silent() -> None:
    assert SilenceClock().longest_s(["a"], 100.0) == 0.0


def test_history_is_no_sign_of_life() -> None:
    clock = SilenceClock()
    clock.heard("a", 10.0)
    clock.restart(11.0)
    clock.heard("b", 12.0)

    assert clock.heard_since() == {"b"}


def test_silence_of_one_that_never_sent_a_heartbeat_is_counted_while_it_is_expected() -> None:
    clock = SilenceClock()
    clock.heard("a", 10.0)
    clock.expect(["a", "b"], 10.0)
    clock.expect(["a", "b"], 14.0)

    assert clock.silent_for_s(15.0) == {"a": 5.0, "b": 5.0}
    assert clock.heard_since() == {"a"}

    clock.expect(["a"], 16.0)
    clock.expect(["a", "b"], 20.0)

    assert clock.silent_for_s(21.0)["b"] == 1.0
