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
            ("experiment", "take a suspected cause away for moments, and see how much more gets done"),
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
            ("explain", "say what a kernel lock protects, and what helps against waits for it"),
            ("export", "write a recording for another tool"),
            ("save", "copy a part of a recording to a file of its own, also while it is being written"),
        ),
    ),
    ("Compare", (("diff", "compare two recordings, or benchmark results, before and after a change"),)),
    ("Many machines", (("fleet", "add recordings of many hosts to a directory, and report on all of them"),)),
    ("Cache lines", (("c2c", "cache lines of perf c2c data, joined with locks"),)),
    (
        "Help",
        (
            ("doctor", "say what this kernel lets lockline see, and what it hides"),
            ("help", "show this, the options of a command, or what a finding or a lock is"),
        ),
    ),
)

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
            "lockline experiment --on './split on' --off './split off' --progress memory:PID:requests",
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
        ("the last ten minutes", "lockline report --last 10m"),
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
    "exporter": (("metrics at one address", "lockline exporter --listen 127.0.0.1:9435"),),
    "demo": (("see lockline at work, as root", "lockline demo"),),
    "explain": (("what is mmap_lock?", "lockline explain mmap_lock"),),
    "export": (("a flame graph in speedscope", "lockline export lockline.data --format speedscope -o waits.json"),),
    "save": (("the last ten minutes", "lockline save --last 10m -o incident.data"),),
    "fleet": (
        ("add the recordings of all hosts", "lockline fleet add fleet/ */lockline.data"),
        ("what costs the fleet most this week, and what is new", "lockline fleet report fleet/"),
        ("a question of your own", "lockline fleet sql fleet/ 'SELECT lock, share FROM lock_shares ORDER BY 2'"),
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
        "`lockline help COMMAND` shows the options of a command, `lockline help hot-lock` what a finding",
        "means, `lockline --version` the version.",
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
