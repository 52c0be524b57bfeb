# SPDX-License-Identifier: GPL-2.0-or-later
"""Which functions are a program's own, by their names and files."""

import pytest

from lockline.analysis.user_space.program_functions import is_own
from lockline.recording.rows import Frame

SERVER = "/srv/server"


@pytest.mark.parametrize(
    "symbol",
    [
        "thread_run",
        "rb_insert",
        "builtin_lookup",
        "vm_execute",
        "method_dispatch",
        "Interpreter::run",
        "Pyramid::build",
    ],
)
def test_a_program_has_functions_named_as_those_of_interpreters_are(symbol: str) -> None:
    assert is_own(Frame(1, symbol, 0, SERVER))


@pytest.mark.parametrize(
    ("symbol", "module"),
    [
        ("thread_run", "/usr/bin/python3.11"),
        ("rb_mutex_lock", "/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1.2"),
        ("Interpreter", "/tmp/perf-7.map"),
        # CPython that is part of a program.
        ("_PyEval_EvalFrameDefault", SERVER),
        ("PyThread_acquire_lock_timed", SERVER),
        ("Py_RunMain", SERVER),
        ("method_vectorcall_VARARGS", SERVER),
        ("start_thread", "/lib/libc.so.6"),
        ("", SERVER),
    ],
)
def test_what_is_of_an_interpreter_is_not_the_programs(symbol: str, module: str) -> None:
    assert not is_own(Frame(1, symbol, 0, module))
