from __future__ import annotations

import gc

import pytest

from airflow_provider.streaming.worker.step.arrival import freeze, no_collection


def test_collector_rests_only_meanwhile() -> None:
    with no_collection():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collector_comes_back_after_an_error() -> None:
    with pytest.raises(ValueError, match="bad"), no_collection():
        raise ValueError("bad")
    assert gc.isenabled()


def test_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with no_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_is_frozen_is_not_looked_at_again() -> None:
    try:
        freeze()
        assert gc.get_freeze_count() > 1_000
    finally:
        gc.unfreeze()
