# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks inside the C library, and one of the C++ library's, told by the function that its callers wait in.

Who waits in a function of the C library that is no function for locking waits for a lock of the library's own.  Which
one, the function tells: malloc()'s arenas, a FILE's lock, the state of rand(), the time zone.
"""

from collections import Counter
from collections.abc import Sequence

from lockline.analysis.user_space.futex_waits import FutexStack, FutexWaits
from lockline.analysis.user_space.program_functions import heaviest_name
from lockline.base.c_library import FUTEX_CALLERS, LOCKING, START, is_c_library, is_cxx_library
from lockline.base.values import dataclass
from lockline.recording.rows import Frame

# Of the sampled waits (the wakes, where no wait was sampled), the part that one function must have.
_MOSTLY = 0.8

MALLOC, STDIO, RANDOM, TIME_ZONE, LOADER, NAMES, ENVIRONMENT, SHARED_POINTERS, OTHER = (
    *("malloc", "stdio", "random", "time zone", "loader", "names", "environment", "shared pointers"),
    "",
)
# The functions of each; one that ends in _ stands for all that begin so.
_FUNCTIONS = {
    MALLOC: (
        *("malloc", "free", "calloc", "realloc", "reallocarray", "memalign", "aligned_alloc", "posix_memalign"),
        *("valloc", "pvalloc", "int_memalign", "mid_memalign", "arena_get2", "arena_get_retry", "mallinfo"),
        *("mallinfo2", "mallopt", "malloc_trim", "malloc_consolidate", "sysmalloc", "tcache_", "malloc_", "arena_"),
    ),
    STDIO: (
        *("printf", "fprintf", "vprintf", "vfprintf", "puts", "fputs", "putc", "fputc", "putchar", "fwrite", "fread"),
        *("gets", "fgets", "getc", "fgetc", "getchar", "getline", "getdelim", "ungetc", "fflush", "fseek", "fseeko"),
        *("ftell", "ftello", "rewind", "scanf", "fscanf", "vscanf", "vfscanf", "perror", "setvbuf", "setbuf", "fclose"),
        *("fopen", "fdopen", "freopen", "wprintf", "fwprintf", "vfwprintf", "fputws", "putwc", "fputwc", "getwc"),
        *("fgetwc", "fgetws", "feof", "ferror", "clearerr", "fileno", "flush_all", "IO_"),
    ),
    RANDOM: ("rand", "srand", "random", "srandom", "initstate", "setstate"),
    TIME_ZONE: (
        *("localtime", "localtime_r", "gmtime", "gmtime_r", "mktime", "timelocal", "timegm", "tzset", "strftime"),
        *("strftime_l", "wcsftime", "ctime", "ctime_r", "asctime", "asctime_r", "localtime64_r", "gmtime64_r"),
    ),
    LOADER: ("dlopen", "dlsym", "dlvsym", "dlclose", "dladdr", "dladdr1", "dlinfo", "dl_", "tls_get_addr"),
    NAMES: (
        *("getaddrinfo", "gethostbyname", "gethostbyname2", "gethostbyaddr", "getnameinfo", "getservbyname"),
        *("gethostbyname_r", "gethostbyname2_r", "gethostbyaddr_r", "getservbyname_r", "getservbyport", "getpwnam"),
        *("getpwnam_r", "getpwuid", "getpwuid_r", "getgrnam", "getgrnam_r", "getgrgid", "getgrgid_r", "res_", "nss_"),
    ),
    ENVIRONMENT: ("getenv", "secure_getenv", "setenv", "unsetenv", "putenv", "clearenv"),
    SHARED_POINTERS: ("std::atomic_load",),
}
# Behind functions that programs call, and called so that these leave no frame.
_CALLED_AS = {
    "tz_convert": "localtime_r",
    "add_to_environ": "setenv",
    "int_malloc": "malloc",
    "int_free": "free",
    "int_realloc": "realloc",
    "vfprintf": "fprintf",
    "overflow": "putc",
    "underflow": "getc",
    "uflow": "getc",
}
# Of the C++ library: std::atomic_load() of a shared_ptr and its like take one of a few mutexes, by the pointer's
# address (libstdc++: src/c++11/shared_ptr.cc; libc++: src/memory.cpp).
_OF_SHARED_POINTERS = ("std::_Sp_locker::", "std::__sp_mut::", "std::__1::__sp_mut::")
# What the library puts before a name.
_BEFORE = ("_", "GI_", "libc_", "IO_new_", "new_")


@dataclass(frozen=True, slots=True)
class CLibraryLock:
    """A lock of the C library's own.

    kind: one of the above, OTHER if not known.  function: of the library, that the program calls; caller: the
    program's function, '' if not known.  part: of the sampled waits.
    """

    kind: str
    function: str
    caller: str
    part: float


def plain_name(function: str) -> str:
    """A function's name as programs write it: malloc for __libc_malloc, printf for __printf_chk."""
    name = function.partition("@")[0]
    if name.startswith(_OF_SHARED_POINTERS):
        return "std::atomic_load"
    before = ""
    while before != name:
        before = name
        for start in _BEFORE:
            name = name.removeprefix(start) or name
    for end in ("_chk", "_internal", "_unlocked_body"):
        name = name.removesuffix(end)
    return _CALLED_AS.get(name, name)


def kind_of(function: str) -> str:
    """What a function of the C library takes a lock for; OTHER if that is not known."""
    name = plain_name(function)
    for kind, names in _FUNCTIONS.items():
        if name in names or name.startswith(tuple(one for one in names if one.endswith("_"))):
            return kind
    return OTHER


def _is_library(frame: Frame) -> bool:
    return is_c_library(frame.module) or frame.symbol.startswith(_OF_SHARED_POINTERS)


def _entry(frames: Sequence[Frame]) -> tuple[str, str] | None:
    """The library's function that has the lock, as far out as it is of one kind, and the program's that calls it.

    None if no function of the library waits for a lock of its own.
    """
    inner = [frame for frame in frames if frame.symbol]
    while inner and inner[0].symbol.startswith(FUTEX_CALLERS):
        inner = inner[1:]
    count = 0
    while count < len(inner) and _is_library(inner[count]) and not inner[count].symbol.startswith(START):
        count += 1
    # Without a caller, the next frame may be the library's too.
    if not count or any(frame.symbol.startswith(LOCKING) for frame in inner[:count]):
        return None
    # A template is code of the program, and no function of its own.
    outer = [frame for frame in inner[count:] if not is_cxx_library(frame.symbol)]
    caller = outer[0].symbol if outer and not outer[0].symbol.startswith(START) else ""
    names = [frame.symbol for frame in inner[:count]]
    kind = next(filter(None, map(kind_of, names)), OTHER)
    return next(name for name in reversed(names) if kind_of(name) == kind or not kind), caller


def _told_by(stacks: Sequence[FutexStack]) -> CLibraryLock | None:
    every = 0
    functions: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    callers: Counter[str] = Counter()
    for stack in stacks:
        every += stack.samples
        entry = _entry(stack.frames)
        if entry is not None:
            functions[entry[0]] += stack.samples
            kinds[kind_of(entry[0]) or entry[0]] += stack.samples
            if entry[1]:
                callers[entry[1]] += stack.samples
    kind = heaviest_name(kinds)
    if not kind or kinds[kind] < _MOSTLY * every:
        return None
    function = heaviest_name(Counter({name: of for name, of in functions.items() if (kind_of(name) or name) == kind}))
    return CLibraryLock(kind_of(function), plain_name(function), heaviest_name(callers), kinds[kind] / every)


def stacks_that_tell(futex: FutexWaits) -> tuple[FutexStack, ...]:
    """The sampled stacks of those who wait; of those who wake, where no wait was sampled."""
    for role in ("waiter", "waker"):
        stacks = tuple(stack for stack in futex.stacks if stack.role == role)
        if stacks:
            return stacks
    return ()


def c_library_lock(futex: FutexWaits) -> CLibraryLock | None:
    """The C library's lock that a contended futex is; None if the sampled stacks do not tell that it is one."""
    return _told_by(stacks_that_tell(futex))
