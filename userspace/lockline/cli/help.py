# SPDX-License-Identifier: GPL-2.0-or-later
"""`lockline help [WORD]`, and the answers to words that are no command or no option."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import argparse

GROUPS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "Record, as root",
        (
            ("why", "find the cause of lock waiting, step by step"),
            ("experiment", "take a suspected cause away, and see how much more gets done"),
            ("record", "record lock waits"),
            ("watch", "watch who uses a lock's cache line, or show what was watched"),
            ("top", "show the locks with most waiting, live or from a recording"),
            ("exporter", "serve lock waits as metrics for Prometheus"),
            ("demo", "record a load whose cause is known, and show the report"),
        ),
    ),
    (
        "Look",
        (
            ("report", "show a recording: which lock, who waits, what to do"),
            ("explain", "say what a kernel lock protects, and what helps against waits"),
            ("export", "write a recording for another tool"),
            ("save", "copy a part of a recording to a file of its own"),
        ),
    ),
    ("Compare", (("diff", "compare recordings, or benchmark results: what did a change do?"),)),
    ("Many machines", (("fleet", "collect recordings of many hosts, and report on all of them"),)),
    ("Cache lines", (("c2c", "show the cache lines of perf c2c data, and the locks on them"),)),
    (
        "Help",
        (
            ("doctor", "say what this kernel lets lockline see, and what it hides"),
            ("help", "show this, the options of a command, or what a finding or lock is"),
        ),
    ),
)

# What a command does, for its help and its manual page.
DESCRIPTIONS: dict[str, str] = {
    "why": "Find out why this machine, or a process, waits for locks.  It works in steps: each step looks at what tells"
    " most for the least cost.  It stops when the cause is proven.",
    "experiment": "Take a suspected cause away and put it back, in short slices in random order, and measure how much"
    " more gets done without it.  Everything is put back at the end, also on Ctrl-C and if lockline is killed.",
    "watch": "Watch a cache line: who reads it, who writes it, who takes it from whom.",
    "top": "Show the locks with most waiting, live (as root) or from a recording.  Press h for the keys.",
    "exporter": "Record lock waits all the time, and serve their totals as metrics for Prometheus, or write them to a"
    " file for node_exporter.  Needs root.  docs/metrics.md lists the metrics.",
    "demo": "Start a load whose cause is known, record it, and show the report.  The load: threads of one process map"
    " memory, touch it and unmap it, so they wait for its mmap_lock.  The last line says whether load and report agree;"
    " if not, the exit code is 1.  Needs root.  Nothing stays on the machine.",
    "report": "Show what a recording says.  Without options, this is one screen: the answer (which lock, who waits),"
    " up to three findings with what to do, and how far to trust the figures.  Other options show more, or only a part"
    " of the recording.  Needs no root, and runs on any machine.",
    "explain": "Say what a lock of the kernel protects, what usually makes tasks wait for it, how to confirm that, and"
    " what helps.  Needs no recording and no root.",
    "export": (
        "Write a recording as a file for another tool.  Its sums are those of `lockline report`, of the kernel's locks."
    ),
    "save": "Copy a part of a recording to a recording of its own, also while it is being written.  -10m means"
    " --last 10m.  Locks of programs (--futex) and holders (--holders) are only kept as totals, so a part does not have"
    " them.",
    "diff": "Compare two recordings, or two files with a benchmark's results: what changed, by how much, and whether"
    " that can be chance.  Exit code 2: something got worse.",
    "fleet": "Keep recordings of many hosts in one directory, as Parquet, and report on all of them together.",
    "c2c": "Show which cache lines move between CPUs, why, and what to change: from perf c2c data, or from the text of"
    " its report, joined with the locks on these lines.",
    "doctor": "Say what this kernel lets lockline see, and what it hides.  Run it as root, as for a recording.",
}

# command -> what to do, and how.
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "": (
        ("why does this machine wait for locks?", "lockline why"),
        ("record all lock waits for ten seconds, then see what they say", "lockline record -d 10; lockline report"),
        ("record a program from its start to its end", "lockline record -- make -j8"),
        ("did a change help?", "lockline diff before.data after.data"),
    ),
    "why": (
        ("what holds this machine back?", "lockline why"),
        ("why is this service slow?", 'lockline why -p "$(pidof -s postgres)"'),
        ("of a program, keep what was seen", "lockline why -o why.data -- ./program"),
    ),
    "experiment": (
        (
            "what would the load gain without strace?",
            'lockline experiment --stop "$(pidof -s strace)" --progress io:PID',
        ),
        ("and without the nightly backup?", "lockline experiment --stop-cgroup backup.service --progress io:PID"),
        (
            "a switch of your own, and your own counter",
            "lockline experiment --on ./on --off ./off --progress file:/run/count",
        ),
    ),
    "record": (
        ("everything, for ten seconds", "lockline record -d 10"),
        ("one service", "lockline record -p $(pidof -s postgres) -d 30 -o db.data"),
        ("also who holds the locks", "lockline record --holders -d 10"),
        ("a program that hangs", "lockline record --futex -p PID -d 5"),
        ("stop at the first wait of 100 ms", "lockline record --flight --until 'wait>100ms'"),
    ),
    "watch": (
        ("the lock that was waited for most", "lockline watch -i lockline.data --auto=1 -d 10"),
        ("the run queue of CPU 0", "lockline watch runqueues:0 -d 10"),
    ),
    "report": (
        ("the answer", "lockline report"),
        ("everything that was recorded of one lock", "lockline report --lock mmap_lock --all"),
        ("the third second", "lockline report --from 2 --to 3"),
        ("who waits, and where from", "lockline report --tasks --stacks"),
        ("who made them wait, of a recording with --holders", "lockline report --holders"),
        ("the last ten minutes", "lockline report --last 10m"),
        ("a page to send around", "lockline report --html waits.html"),
        ("for a script", "lockline report --format json | jq .findings"),
    ),
    "diff": (
        ("two recordings", "lockline diff before.data after.data"),
        ("ten runs of a benchmark each", "lockline diff before.txt after.txt --changelog"),
        ("fail a build also where the figures cannot decide", "lockline diff old.data new.data --fail-inconclusive"),
    ),
    "doctor": (("can this machine be recorded?", "lockline doctor"),),
    "top": (
        ("this machine, now", "lockline top"),
        ("a recording, interval by interval", "lockline top lockline.data"),
    ),
    "exporter": (
        ("metrics at one address", "lockline exporter --listen 127.0.0.1:9435"),
        ("a file for node_exporter", "lockline exporter --textfile /var/lib/node_exporter/lockline.prom"),
        ("look at the metrics once", "lockline exporter --once"),
    ),
    "demo": (
        ("see lockline at work, as root", "lockline demo"),
        ("see it find the cause of the same load in steps", "lockline demo --why"),
    ),
    "explain": (
        ("what is mmap_lock?", "lockline explain mmap_lock"),
        ("which locks of file systems are known?", "lockline explain --list | grep -i ext4"),
    ),
    "export": (("a flame graph in speedscope", "lockline export lockline.data --format speedscope -o waits.json"),),
    "save": (("the last ten minutes", "lockline save --last 10m -o incident.data"),),
    "fleet": (
        ("add the recordings of all hosts", "lockline fleet add fleet/ */lockline.data"),
        ("what costs the fleet most this week, and what is new", "lockline fleet report fleet/"),
        ("a question of your own", "lockline fleet sql fleet/ 'SELECT lock, share FROM lock_shares'"),
    ),
    "c2c": (
        ("what perf c2c record found", "lockline c2c report perf.data"),
        ("joined with lock waits of the same time", "lockline c2c report perf.data --recording lockline.data"),
    ),
}

COMMANDS = tuple(name for _, commands in GROUPS for name, _ in commands)


def _examples(command: str) -> list[str]:
    lines = []
    for what, how in EXAMPLES.get(command, ()):
        lines += [f"  {what}{'' if what.endswith('?') else ':'}", f"      {how}"]
    return ["", "Examples:", *lines] if lines else []


def overview() -> str:
    """What `lockline help` prints."""
    lines = [
        "usage: lockline COMMAND [OPTIONS]",
        "",
        "Which lock holds this machine back, who waits for it, and from where.",
    ]
    for title, commands in GROUPS:
        lines += ["", f"{title}:", *(f"  {name:<11} {words}" for name, words in commands)]
    lines += _examples("")
    lines += [
        "",
        "`lockline help COMMAND` shows the options of a command, `lockline help hot-lock`",
        "what a finding means, `lockline --version` the version.",
    ]
    return "\n".join(lines) + "\n"


def epilog(command: str) -> str:
    """Examples of a command, for the end of its help; '' if there are none."""
    return "\n".join(_examples(command)[1:])


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that was meant, most likely, or ''."""
    import difflib

    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.75)
    return found[0] if found else ""


def refuse_command(word: str) -> str:
    """One line about a word that is no command."""
    from lockline.base.text import Style, clean

    shown = clean(word, Style(unicode=False, addresses=False))
    meant = nearest(word, COMMANDS)
    hint = f"; did you mean `lockline {meant}`?" if meant else ""
    return f"lockline: '{shown}' is not a command{hint}"


def of_word(word: str) -> str:
    """What a finding means, or what a lock is.  Raises LocklineError about a word that is neither, nor a command."""
    from lockline.atlas import atlas
    from lockline.base.errors import LocklineError
    from lockline.base.text import fill
    from lockline.render.meanings import MEANINGS

    if word in MEANINGS:
        text = f"{word} is a finding of lockline. {MEANINGS[word]} docs/rules.md has the exact rule."
        return "\n".join(fill(text)) + "\n"
    known = atlas()
    lock = known.find(word)
    if lock is not None:
        import shutil

        from lockline.render.atlas import render

        return render(lock, known.kernels, min(shutil.get_terminal_size((80, 24)).columns, 100))
    meant = nearest(word, (*COMMANDS, *MEANINGS)) or next(iter(known.near(word)), "")
    hint = f"did you mean `lockline help {meant}`?" if meant else "`lockline help` lists the commands"
    raise LocklineError(f"'{word[:80]}' is not a command, a finding or a lock; {hint}")


def refuse_options(parser: "argparse.ArgumentParser", unknown: Sequence[str]) -> NoReturn:
    """End with the option that was meant.  Raises SystemExit."""
    what = "no such option" if unknown[0].startswith("-") else "one argument too many"
    text = f"{' '.join(unknown)}: {what}"
    options = [option for action in parser._actions for option in action.option_strings]
    meant = [nearest(word.partition("=")[0], options) for word in unknown if word.startswith("--")]
    if any(meant):
        text += f"; did you mean {' '.join(word for word in meant if word)}?"
    parser.error(text)
