# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests that need debug registers wait for whoever has them."""

import os
import platform
import threading
from contextlib import ExitStack, closing

import pytest

import registers
from support import DEADLINE_S, wait_for

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the registers of x86-64 are counted")


def test_a_test_begins_when_another_program_gives_its_register_back(debug_registers: None) -> None:
    assert registers.are_free()
    begun = threading.Event()

    def begin() -> None:
        # The lock of tests is this test's own.
        wait_for(registers.are_free, "free register")
        begun.set()

    waiting = threading.Thread(target=begin)
    with ExitStack() as stack:
        taken = registers.open_on(0)
        assert taken >= 0
        stack.callback(os.close, taken)
        assert not registers.are_free()
        waiting.start()
        assert not begun.is_set()
    waiting.join(DEADLINE_S)
    assert begun.is_set()


def test_two_tests_take_turns(debug_registers: None) -> None:
    with closing(registers.LOCK.open("w")) as other:
        assert not registers.is_locked(other.fileno())
