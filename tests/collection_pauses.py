"""Pauses of garbage collection: run by test_collection_pauses.py."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from structir import interrupts
from structir.interrupts import collection_paused


class Node:
    """A node of a reference cycle."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def nothing_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unfreezes the objects that the collection of tests made: pauses would leave all others."""
    gc.unfreeze()
    monkeypatch.setattr(interrupts, "_are_frozen", False)


def test_many_objects_of_a_pause_are_not_traversed_again() -> None:
    with collection_paused():
        lists: list[Any] = [[] for _ in range(2 * interrupts.MANY)]
        assert len(gc.get_objects(generation=0)) > len(lists)
    assert len(gc.get_objects(generation=0)) < interrupts.MANY
    assert gc.isenabled() and gc.get_freeze_count() == 0


def test_garbage_of_a_pause_is_collected_by_a_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with collection_paused():
        reference = weakref.ref(Node())
        lists: list[Any] = [[] for _ in range(2 * interrupts.MANY)]
    assert reference() is not None
    monkeypatch.setattr(interrupts, "MOST_UNCHECKED", len(lists))
    with collection_paused():
        assert reference() is None


def test_objects_that_the_caller_has_frozen_stay_frozen() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with collection_paused():
        lists: list[Any] = [[] for _ in range(2 * interrupts.MANY)]
    assert lists and gc.get_freeze_count() >= frozen - interrupts.MANY


def test_a_pause_inside_a_pause_keeps_collection_disabled() -> None:
    with collection_paused():
        with collection_paused():
            pass
        assert not gc.isenabled()
