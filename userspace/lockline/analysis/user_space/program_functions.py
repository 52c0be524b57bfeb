# SPDX-License-Identifier: GPL-2.0-or-later
"""Which functions of a stack are the program's, and not of the C library, of a run time or of a language's library."""

import re
from collections.abc import Iterable, Mapping

from lockline.analysis.user_space.run_times import PYTHON_CODE, is_interpreter
from lockline.base.c_library import FUTEX_CALLERS, is_c_library, is_cxx_library, lambda_in
from lockline.recording.rows import Frame

# Of the C library and of run times: not where a lock is taken or released.
_NOT_OWN = (
    *FUTEX_CALLERS,
    *("_ZN13ObjectMonitor", "ObjectMonitor::", "_ZN13SharedRuntime", "SharedRuntime::", "Unsafe_", "Parker::"),
    *("ObjectSynchronizer::", "LightweightSynchronizer::"),
    *("InterpreterRuntime::", "Runtime1::", "OptoRuntime::", "_complete_monitor_", "os::Platform", "PlatformEvent::"),
    *("JavaCalls::", "JavaThread::", "Thread::call_run", "thread_native_entry"),
    *("start_thread", "__clone", "__libc_start", "__libc_init"),
    *("core::ops::function::", "core::panic", "<core::", "<std::", "<alloc::", "<&core::", "<&std::", "<&alloc::"),
    # Of CPython that is part of another program; those of an interpreter's own file are known by it.
    *("drop_gil", "take_gil", "lock_Py", "method_vectorcall", "cfunction_call", "cfunction_vectorcall"),
    *("pythread_wrapper", "_multiprocessing_", "runtime.", "sync.", "internal/sync.", "time.Sleep"),
    *("uv_", "v8::", "Builtins_", "node::"),
    # Code that HotSpot makes for itself, as lockline names it, and as its map does.
    *("HotSpot::", "StubRoutines", "Stub Generator", "I2C/C2I"),
    *("__gthread_", "__cxa_", "__cxxabiv1::"),
    *("absl::", "Absl", "parking_lot", "lock_api", "crossbeam", "folly::", "tbb::", "boost::"),
    *("QBasicMutex::", "QMutex::", "QRecursiveMutex::", "QReadWriteLock::", "QSemaphore::", "QWaitCondition::"),
    *("g_mutex_", "g_rec_mutex_", "g_rw_lock_", "g_cond_", "g_async_queue_"),
    *("GOMP_", "gomp_", "__kmp", "omp_", "semlock"),
    *("ethr_", "erts_proc_lock", "call_into_lisp"),
    # Locks of tables, in MariaDB and MySQL.
    *("MDL_wait::", "MDL_context::"),
    # A function of OCaml has a module behind caml.  OCaml 5 has a stack of its own, which a stack of C ends before.
    "caml_",
)
# Code that HotSpot makes for itself, as its map names it whole.
_JAVA_INTERPRETER = "Interpreter"
# CPython's interface; a program may have a Pyramid.
_CPYTHON = re.compile(r"_Py|Py(?:[A-Z]\w*)?_")


# Of Java's own library.
_JAVA_OWN = ("java.", "javax.", "jdk.", "sun.", "com.sun.")
# Of .NET's library, as its maps name it; and ahead-of-time code of Mono, in a file for each assembly.
_NET_OWN = ("System.", "Microsoft.", "Mono.", "(wrapper ")
_NET_FILE = re.compile(r"(?:mscorlib|System|Mono|Microsoft)[\w.]*\.dll\.so")
# Of a program's own: Shop:Book (object).
_MONO_METHOD = re.compile(r"(?P<name>[^\s:]+:[^\s:]+) \(.*\)")
# The same of CoreCLR's map: void [Shop] Shop.Till::Book(object)[Optimized].
_NET_METHOD = re.compile(r"(?:.* )?\[[\w.]+\] (?P<name>[^\s(]+::[^\s(]+)\(.*")
# What GCC and LLVM add to the name of a function of which they made another version, or a part.
_CLONE = re.compile(r"(?:\.(?:constprop|isra|part|lto_priv|llvm)\.\d+(?:\.cold)?)+$| \[clone [^]]*\]$")
# What a lambda is an object of: a class that the JVM makes.  The method that the program wrote is called from there.
_JAVA_LAMBDA = "$$Lambda"
# Code that HotSpot makes for itself (share/c1/c1_Runtime1.cpp).
_JAVA_STUB = " Runtime1 stub"


# Where Python's own library lies, what is built into the interpreter, and what a program has installed.
_PYTHON_LIBRARY = re.compile(r"/lib(?:64)?/python3[.\dt]*/|^<frozen ")
_PYTHON_PACKAGES = re.compile(r"/(?:site|dist)-packages/")
# Packages of Go's standard library (src/ of Go 1.25): a program's begin with a host's name, or are called main.
_GO_LIBRARY = re.compile(
    r"(?P<package>archive|bufio|bytes|compress|container|context|crypto|database|debug|embed|encoding|expvar|flag|fmt|go"
    r"|hash|html|image|io|log|maps|math|mime|net|os|path|plugin|reflect|regexp|sort|strconv|strings|syscall|testing|text"
    r"|time|unicode|unique|vendor)(?:/[\w./-]+)?\.(?:\(\*?\w|[A-Z])"
)
_GO_WRITES = ("bufio", "fmt", "io", "log", "os")


def go_package(symbol: str) -> str:
    """The package of Go's standard library that a function is of, up to its first slash; '': it is none of it."""
    found = _GO_LIBRARY.match(symbol)
    return found["package"] if found is not None else ""


def is_go_writer(package: str) -> bool:
    """Whether a package of Go's library writes to files and logs: who writes has a lock until the write is done."""
    return package in _GO_WRITES


def method_of(symbol: str) -> str:
    """A method's name without its type and parameters: compiled ones have the type that they return before it."""
    return symbol.partition("(")[0].rpartition(" ")[2]


def _own_python(symbol: str) -> str:
    """A function as people know it that CPython calls py::Class.function:/the/file.py; '' if it is of its library."""
    name, _, file = symbol.removeprefix(PYTHON_CODE).partition(":")
    if _PYTHON_LIBRARY.search(file) and not _PYTHON_PACKAGES.search(file):
        return ""
    return f"{file.rpartition('/')[2]}:{name}" if file else name


def own_name(frame: Frame) -> str:
    """A function of the program, or its lambda that one of the C++ library has become; '' if it is neither."""
    if frame.symbol.startswith(PYTHON_CODE):
        return _own_python(frame.symbol)
    if not _is_own(frame):
        return lambda_in(frame.symbol, frame.module)
    if (clone := _CLONE.search(frame.symbol)) is not None:
        return frame.symbol[: clone.start()]
    method = _MONO_METHOD.fullmatch(frame.symbol) or _NET_METHOD.fullmatch(frame.symbol)
    return method["name"] if method is not None else frame.symbol


def is_own(frame: Frame) -> bool:
    """Whether a function is the program's, and not one of the C library or of a run time."""
    return bool(own_name(frame))


def innermost_own(frames: Iterable[Frame]) -> str:
    """The program's function that is innermost on a stack; '' if it has none."""
    return next(filter(None, map(own_name, frames)), "")


def heaviest_name(weights: Mapping[str, int]) -> str:
    """The name with the largest weight, of several the first by the alphabet; '' of none."""
    return max(sorted(weights), key=lambda name: weights[name], default="")


def _is_own(frame: Frame) -> bool:
    name = frame.symbol
    if (
        is_interpreter(frame.module)
        or is_c_library(frame.module)
        or not name
        or name.startswith(_NOT_OWN)
        or name == _JAVA_INTERPRETER
        or _CPYTHON.match(name)
        or is_cxx_library(name)
        or name.endswith(_JAVA_STUB)
        or name.startswith(_NET_OWN)
        or _NET_FILE.fullmatch(frame.module.rpartition("/")[2])
        or _JAVA_LAMBDA in name
    ):
        return False
    return not method_of(name).startswith((*_JAVA_OWN, *_NET_OWN))
