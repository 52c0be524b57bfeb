# SPDX-License-Identifier: GPL-2.0-or-later
"""Which functions are a program's own, by their names and files."""

import pytest

from lockline.analysis.user_space.program_functions import innermost_own, is_own
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
        ("new_thread_trampoline", "/usr/lib/sbcl/sbcl"),
        ("Interpreter", "/tmp/perf-7.map"),
        # CPython that is part of a program.
        ("_PyEval_EvalFrameDefault", SERVER),
        ("PyThread_acquire_lock_timed", SERVER),
        ("Py_RunMain", SERVER),
        ("method_vectorcall_VARARGS", SERVER),
        ("start_thread", "/lib/libc.so.6"),
        # .NET's library: compiled ahead of time by Mono, and as maps name it.
        ("System_Threading_ThreadHelper_ThreadStart_Context_object", "/usr/lib/mono/aot-cache/mscorlib.dll.so"),
        ("System.Threading.Thread:SleepInternal (int)", "/tmp/perf-7.map"),
        ("(wrapper managed-to-native) System.Threading.Monitor:Exit (object)", "/tmp/perf-7.map"),
        ("void [System.Private.CoreLib] System.Threading.Thread::StartCallback()", "/tmp/perf-7.map"),
        ("", SERVER),
    ],
)
def test_what_is_of_an_interpreter_is_not_the_programs(symbol: str, module: str) -> None:
    assert not is_own(Frame(1, symbol, 0, module))


@pytest.mark.parametrize(
    ("symbols", "own"),
    [
        # The class that the JVM makes for a lambda, as JDK 17 and JDK 21 call it.
        (("java.lang.Thread.yield", "Shop$$Lambda$12+0x00007fa654005000.run", "Shop.timed"), "Shop.timed"),
        (("Unsafe_Park", "Shop$$Lambda/0x00007f0a28003000.run", "Shop.lambda$sell$4"), "Shop.lambda$sell$4"),
        # What println!() calls; the same trait of a type of the program's.
        (("syscall", "<&std::io::stdio::Stdout as std::io::Write>::write_fmt", "shop::sell"), "shop::sell"),
        (("syscall", "<&shop::Till as std::io::Write>::write_all"), "<&shop::Till as std::io::Write>::write_all"),
        # As Mono's map has it.
        (
            ("pthread_cond_wait", "", "(wrapper managed-to-native) object:__icall (object)", "Shop:Book (object)"),
            "Shop:Book",
        ),
        # Versions and parts of a function that compilers make.
        (("syscall", "query.constprop.0"), "query"),
        (("syscall", "shop::sell.part.0.isra.2"), "shop::sell"),
        (("syscall", "shop::sell [clone .cold]"), "shop::sell"),
        (("syscall", "main.(*Shop).sell.func1"), "main.(*Shop).sell.func1"),
        # As CoreCLR's has it.
        (("__futex_wait", "void [Shop] Shop.Till::Book(object)[Optimized]"), "Shop.Till::Book"),
        # Where a variable that is static in a function is made.
        (("syscall", "__cxa_guard_acquire", "settings"), "settings"),
    ],
)
def test_what_stands_between_the_wait_and_the_program(symbols: tuple[str, ...], own: str) -> None:
    assert innermost_own([Frame(1, symbol, 0, SERVER) for symbol in symbols]) == own
