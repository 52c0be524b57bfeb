# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks inside a shared library: an allocator's arena, a database client's pool, a cache of OpenSSL.

A library counts that a package has installed (/usr/lib, /lib), and an allocator wherever it lies.  Others are parts of
the program: its authors can change them.  Between the C library's function for locking and the program's own function
stand frames of the library's file.  If the outermost of them is itself a function for locking (QMutex::lock,
g_mutex_lock), the lock is the program's.  So it is with modules of Python's own library, and locks of its threading.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence

from lockline.analysis.user_space.c_library_locks import stacks_that_tell
from lockline.analysis.user_space.futex_waits import FutexStack, FutexWaits
from lockline.analysis.user_space.program_functions import heaviest_name, innermost_own, own_name
from lockline.analysis.user_space.run_times import PYTHON_CODE
from lockline.analysis.user_space.user_evidence import PY_LOCK, PY_MUTEX
from lockline.base.c_library import FUTEX_CALLERS, START, is_c_library
from lockline.base.values import dataclass
from lockline.recording.rows import Frame

# Of the sampled waits, the part that is in one library.
_MOSTLY = 0.8
_SHARED = re.compile(r"(?P<stem>[^/]+?)\.so(?:\.[\d.]+)?(?: \(deleted\))?")
# What those functions are called whose purpose is to lock, or to wait, for the program.
_LOCKS = re.compile(
    r"lock|mutex|semaphore|(^|[_:])sem_|monitor|barrier|latch|once|critical|cond(ition)?_|wait|park|acquire|enter|join",
    re.IGNORECASE,
)
# Libraries that run the program's own code, or make its locks: user_locks.py knows those by their makes.
_RUN_TIMES = re.compile(
    r"lib(jvm|coreclr|clrjit|python[\d.]*|pypy[\d.]*-c|ruby[\w.-]*|node|v8|mono[\w.-]*|stdc\+\+|c\+\+|c\+\+abi|gcc_s|gomp|omp|iomp5"
    r"|tbb[\w.]*|folly[\w.-]*|absl\w*|boost_thread|boost_fiber|QtCore|Qt\dCore|glib-[\d.]+|gthread-[\d.]+|uv|apr-\d|nspr4"
    r"|erts\w*|lua[\d.-]*|perl)"
)
# HotSpot's own mutexes, as for its list of threads.  A program's monitors wait in other functions.
_JVM = "libjvm.so"
_JVM_MUTEXES = ("Mutex::lock", "Monitor::lock", "Monitor::ILock")
_INSTALLED = ("/usr/lib/", "/usr/lib64/", "/usr/lib32/", "/lib/", "/lib64/")
# A function of Python's own library, as its stacks have it.
_OF_PYTHON = re.compile(
    rf"{re.escape(PYTHON_CODE)}(?P<function>[^:]+):.*/lib(?:64)?/python3[.\dt]*/"
    r"(?P<module>(?!site-packages|dist-packages)[\w/]+?)(?:/__init__)?\.py"
)
# What makes locks for the program.
_PYTHON_LOCKS = ("threading", "multiprocessing/synchronize")
PYTHON_MAKES = (PY_LOCK, PY_MUTEX)
_ALLOCATORS = re.compile(r"lib(jemalloc|tcmalloc|mimalloc|tbbmalloc|hoard|scalloc|rpmalloc|snmalloc)")


@dataclass(frozen=True, slots=True)
class LibraryLock:
    """A lock of a shared library's own.

    library: its file's name.  function: of it, that the program calls, '' if it has no name; caller: the program's
    function, '' if not known.  part: of the sampled waits.
    """

    library: str
    function: str
    caller: str
    part: float

    @property
    def allocates(self) -> bool:
        """Whether the library is one for memory."""
        return _ALLOCATORS.match(self.library) is not None

    @property
    def of_jvm(self) -> bool:
        """Whether it is the JVM."""
        return self.library == _JVM

    @property
    def logs(self) -> bool:
        """Whether it is Python's module for logs."""
        return self.library == _called("logging")


def _library(module: str) -> str:
    """The name of a shared library's file; '' if it is none, or the C library, or one that runs programs."""
    name = module.rpartition("/")[2]
    if is_c_library(module) or (found := _SHARED.fullmatch(name)) is None or _RUN_TIMES.fullmatch(found["stem"]):
        return ""
    if not (module.startswith(_INSTALLED) or _ALLOCATORS.match(name)):
        return ""
    return name.removesuffix(" (deleted)")


def _entry(frames: Sequence[Frame]) -> tuple[str, str, str] | None:
    """The library, its function that the program calls, and the program's that calls it; None: no library's lock."""
    inner = list(frames)
    while inner and (is_c_library(inner[0].module) or inner[0].symbol.startswith(FUTEX_CALLERS)):
        inner = inner[1:]
    if not inner:
        return None
    jvms = inner[0].module.endswith(f"/{_JVM}") and inner[0].symbol.startswith(_JVM_MUTEXES)
    library = _JVM if jvms else _library(inner[0].module)
    if not library:
        return None
    of_it = 0
    while of_it < len(inner) and inner[of_it].module == inner[0].module:
        of_it += 1
    outermost = inner[of_it - 1].symbol
    # One frame without a name may be a lock that it makes for the program; a stack that ends there tells nothing.
    unknown = not outermost and of_it == 1
    outside = inner[of_it] if of_it < len(inner) else None
    if unknown or outside is None or _LOCKS.search(outermost):
        return None
    if outside.symbol.startswith(START):
        # Its own thread.
        return library, "", ""
    return library, outermost, innermost_own(inner[of_it:]) if jvms else outside.symbol


def _called(module: str) -> str:
    return f"Python's {module.replace('/', '.')}"


def _python_entry(frames: Sequence[Frame]) -> tuple[str, str, str] | None:
    """The same of a lock of Python."""
    code = [frame for frame in frames if frame.symbol.startswith(PYTHON_CODE)]
    modules = [(_OF_PYTHON.fullmatch(frame.symbol), frame) for frame in code]
    while modules and modules[0][0] is not None and modules[0][0]["module"] in _PYTHON_LOCKS:
        modules = modules[1:]
    inner = modules[0][0] if modules else None
    if inner is None:
        return None
    outermost = inner
    for found, _ in modules:
        if found is None or found["module"] != inner["module"]:
            break
        outermost = found
    caller = next(filter(None, (own_name(frame) for _, frame in modules)), "")
    function = outermost["function"]
    return (_called(inner["module"]), function, caller) if caller and not _LOCKS.search(function) else None


def _tells_of_python(frames: Sequence[Frame]) -> bool:
    """Whether a wait's functions in Python are known: of some none are, of others the innermost alone.

    That one tells if it is the program's.
    """
    code = [frame for frame in frames if frame.symbol.startswith(PYTHON_CODE)]
    return len(code) > 1 or any(map(own_name, code))


def _told_by(
    stacks: Sequence[FutexStack], entry_of: Callable[[Sequence[Frame]], tuple[str, str, str] | None]
) -> LibraryLock | None:
    every = 0
    found: Counter[str] = Counter()
    functions: Counter[tuple[str, str]] = Counter()
    callers: Counter[tuple[str, str]] = Counter()
    for stack in stacks:
        every += stack.samples
        entry = entry_of(stack.frames)
        if entry is not None:
            library, function, caller = entry
            found[library] += stack.samples
            functions[library, function] += stack.samples
            callers[library, caller] += stack.samples
    library = heaviest_name(found)
    if not library or found[library] < _MOSTLY * every:
        return None

    def most(names: Counter[tuple[str, str]]) -> str:
        own = {name: count for (of, name), count in names.items() if of == library and name}
        return heaviest_name(own)

    return LibraryLock(library, most(functions).partition("@")[0], most(callers), found[library] / every)


def library_lock(futex: FutexWaits) -> LibraryLock | None:
    """The library's own lock that a contended futex is; None if the sampled stacks do not tell that it is one."""
    stacks = stacks_that_tell(futex)
    if futex.make in PYTHON_MAKES:
        return _told_by([stack for stack in stacks if _tells_of_python(stack.frames)], _python_entry)
    return _told_by(stacks, _entry)
