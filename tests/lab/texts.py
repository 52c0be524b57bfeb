# SPDX-License-Identifier: GPL-2.0-or-later
"""What a user has of the samples: perf.data, or one of the texts that perf c2c prints, as people pass them on."""

import html
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from c2c import report_text
from c2c.description import Access, Description, Thread, ibs_events, intel_events, spe_events
from c2c.perfdata_format import File
from c2c.perfdata_format import Machine as FileMachine
from c2c.report_text import Offset, Report, Style
from c2c.symbol_images import Image, image
from lab.caches import Machine, Program
from lab.pmus import Pmu, Sample

# perf c2c prints "[k] " and so much of a name, unless it is asked for --full-symbols.
SYMBOL_WIDTH = 30 - len("[k] ")
KERNEL_TEXT, USER_TEXT = 0xFFFFFFFF81000000, 0x401000
PID = 4000


@dataclass(frozen=True)
class Line(report_text.Line):
    """A line whose table row counts more than its offsets show: perf leaves out those without HITM and stores."""

    whole_loads: int = 0

    @property
    def loads(self) -> int:
        """All loads of the line."""
        return self.whole_loads


@dataclass
class Row:
    """What one row of the pareto table sums up."""

    counts: Counter[str] = field(default_factory=Counter)
    cpus: set[int] = field(default_factory=set)
    latency: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))


def _code(program: Program) -> dict[str, int]:
    """Where each function begins."""
    base = KERNEL_TEXT if program.kernel else USER_TEXT
    steps = [step for role in program.roles for choice in role.choices for step in choice]
    functions = dict.fromkeys(name for step in steps for name in (step.function, step.slow) if name)
    return {name: base + 0x1000 + 0x140 * number for number, name in enumerate(functions)}


# The rows of the samples that were summed up last, for each way to do so: several texts are made of them.
_LAST: dict[bool, tuple[Sequence[Sample], dict[tuple[int, int, str, int], Row]]] = {}


def _rows(samples: Sequence[Sample], program: Program, threads: bool) -> dict[tuple[int, int, str, int], Row]:
    if threads not in _LAST or _LAST[threads][0] is not samples:
        _LAST[threads] = samples, _summed(samples, program, threads)
    return _LAST[threads][1]


def _summed(samples: Sequence[Sample], program: Program, threads: bool) -> dict[tuple[int, int, str, int], Row]:
    code = _code(program)
    rows: defaultdict[tuple[int, int, str, int], Row] = defaultdict(Row)
    for sample in samples:
        address = code[sample.function] + 0x20 + 7 * sample.operation
        row = rows[sample.address, address, sample.function, sample.thread if threads else 0]
        row.counts.update(sample.kind.counts)
        row.cpus.add(sample.cpu)
        names = sample.kind.counts
        which = next((name for name in ("rmt_hitm", "lcl_hitm", "rmt_peer", "lcl_peer") if name in names), "load")
        if "load" in names:
            row.latency[which].append(sample.latency)
    return rows


def _source(function: str, code: int) -> str:
    return f"{function.split('_')[-1]}.c:{40 + (code >> 3) % 300}"


def _mean(values: Sequence[int]) -> int:
    return sum(values) // len(values) if values else 0


def report_of(
    samples: Sequence[Sample],
    program: Program,
    machine: Machine,
    pmu: Pmu,
    threads: bool = False,
    display: str = "tot",
    symbols: bool = True,
) -> tuple[Report, int]:
    """What perf c2c report shows of the samples, and how many rows of offsets that are.

    display: tot, lcl, rmt or peer.  A line or an offset is shown if it has what is displayed; offsets with stores are.
    """
    remote, local = ("rmt_peer", "lcl_peer") if display == "peer" else ("rmt_hitm", "lcl_hitm")
    wanted = {"lcl": (local,), "rmt": (remote,)}.get(display, (local, remote))
    by_line: defaultdict[int, list[tuple[tuple[int, int, str, int], Row]]] = defaultdict(list)
    for key, row in _rows(samples, program, threads).items():
        by_line[key[0] & ~63].append((key, row))
    everything = sum(row.counts[name] for rows in by_line.values() for _, row in rows for name in wanted)
    found: list[tuple[int, Line]] = []
    shown = 0
    for address, rows in by_line.items():
        score = sum(row.counts[name] for _, row in rows for name in wanted)
        if not everything or score / everything < 0.0005:
            continue
        offsets = []
        for (data, code, function, thread), row in sorted(rows):
            counts = row.counts
            if not (any(counts[name] for name in wanted) or counts["store"]):
                continue
            offsets.append(
                Offset(
                    offset=data & 63,
                    code=code,
                    remote=counts[remote],
                    local=counts[local],
                    store_hit=counts["st_l1hit"],
                    store_miss=counts["st_l1miss"],
                    store_unknown=counts["st_na"],
                    loads=counts["load"],
                    cycles=(
                        _mean(row.latency[remote]),
                        _mean(row.latency[local]),
                        _mean(row.latency["load"]),
                    ),
                    cpus=tuple(sorted(row.cpus)),
                    symbol=function[:SYMBOL_WIDTH] if symbols else f"{code & 0xFFFFFF:#018x}",
                    object=("[kernel.kallsyms]" if program.kernel else "server") if symbols else "server",
                    source=(f"{function.split('_')[-1]}.c:{40 + (code >> 3) % 300}")
                    if symbols
                    else f"server[{code & 0xFFFF:x}]",
                    pid=PID,
                    tid=PID + thread,
                    comm=program.comm,
                )
            )
        shown += len(offsets)
        fill = sum(row.counts["ld_fbhit"] for _, row in rows)
        loads = sum(row.counts["load"] for _, row in rows)
        clean = (
            (0, 0)
            if display == "peer"
            else tuple(sum(row.counts[name] for _, row in rows) for name in ("ld_llchit", "rmt_hit"))
        )
        found.append((score, Line(address, tuple(offsets), fill_buffer=fill, clean=clean, whole_loads=loads)))
    found.sort(key=lambda pair: -pair[0])
    events = {
        "intel": ("cpu/mem-loads,ldlat=30/P", "cpu/mem-stores/P"),
        "ibs": ("ibs_op//",),
        "spe": ("arm_spe_0/ts_enable=1,load_filter=1,store_filter=1,min_latency=30/", "dummy:u", "memory"),
    }[pmu.family]
    nodes = {
        socket: range(socket * machine.cpus // machine.sockets, (socket + 1) * machine.cpus // machine.sockets)
        for socket in range(machine.sockets)
    }
    return Report(tuple(line for _, line in found), events, nodes), shown


# What people do to a text before others see it.  None of these loses a figure.


def _each(change: Callable[[str], str]) -> Callable[[str, random.Random], str]:
    return lambda text, _: "\n".join(change(line) for line in text.split("\n"))


def wrapped(width: int) -> Callable[[str, random.Random], str]:
    """As a mail program wraps at the last space."""

    def wrap(line: str) -> str:
        parts = []
        while len(line) > width:
            at = line.rfind(" ", 0, width + 1)
            if at <= 0 or not line[:at].strip():
                at = line.find(" ", width)
            if at < 0:
                break
            parts.append(line[:at])
            line = line[at + 1 :]
        return "\n".join([*parts, line])

    return _each(wrap)


_WORDS = ("The next row is the reader:", "[...]", "...", "^^^^ look at this", "--- snip ---")


def _comments(text: str, rng: random.Random) -> str:
    """The author's words between the rows, and behind some."""
    result = []
    for line in text.split("\n"):
        if re.match(r"\s+\d+\.\d+%", line) and rng.random() < 0.3:
            line += rng.choice(("   <-- this one", "   <== writer", "  // the reader", "   # hot!", "  <<<<"))
        result.append(line)
        if "%" in line and rng.random() < 0.1:
            result.append(
                rng.choice(("The next row is the reader:", "[...]", "...", "^^^^ look at this", "--- snip ---"))
            )
    return "\n".join(result)


def _markdown(text: str, _: random.Random) -> str:
    return "Here is what I see:\n\n```\n" + text + "\n```\n\nAny idea?\n"


Change = Callable[[str, random.Random], str]


def _in_json(text: str, _: random.Random) -> str:
    return '{"body": "' + text.replace("\\", "\\\\").replace("\n", "\\n") + '"}'


LOSSLESS: dict[str, Change] = {
    "decimal comma": lambda text, _: re.sub(r"(\d+)\.(\d\d)%", r"\1,\2%", text),
    "single spaces": _each(lambda line: re.sub(" +", " ", line)),
    "journal": _each(lambda line: "Jan 02 10:11:12 host perf[331]: " + line),
    "box": _each(lambda line: f"| {line} |"),
    "JSON": _in_json,
    "Windows": lambda text, _: text.replace("\n", "\r\n"),
    "no brackets": _each(lambda line: re.sub(r"\[[k.]\] ", "", line)),
    "quoted": _each(lambda line: "> " + line),
    "quoted twice": _each(lambda line: "> > " + line),
    "indented": _each(lambda line: "      " + line),
    "HTML": lambda text, _: f"<pre><code>{html.escape(text)}</code></pre>",
    "fenced": _markdown,
    "tabs": lambda text, _: re.sub(" {2,}", "\t", text),
    "no indentation": _each(str.strip),
    "wrapped at 80": wrapped(80),
    "wrapped and quoted": lambda text, rng: _each(lambda line: "> " + line)(wrapped(76)(text, rng), rng),
    "comments": _comments,
    "numbered": lambda text, _: "\n".join(f"{n:6}\t{line}" for n, line in enumerate(text.split("\n"), 1)),
    "no rules": lambda text, _: "\n".join(line for line in text.split("\n") if not re.fullmatch(r"[#\s.=-]+", line)),
    "no hashes": _each(lambda line: re.sub(r"^#", " ", line)),
    "rst": _each(lambda line: re.sub(r"^( *)(-{5,})", r"\1#\2", line)),
}


def cut_columns(text: str, rng: random.Random) -> str:
    """As from a narrow terminal."""
    width = rng.choice((100, 132, 150, 170, 190))
    return "\n".join(line[:width] for line in text.split("\n"))


def cut_lines(text: str, rng: random.Random) -> str:
    """The end is missing."""
    return text[: len(text) - rng.randrange(len(text) // 4)]


def excerpt(text: str, _: random.Random) -> str:
    """The table of offsets with its header, of the first line alone: what people show of a report."""
    at = text.rfind("Pareto")
    lines = text[at:].split("\n")[2:]
    rules = [i for i, line in enumerate(lines) if re.match(r"\s*-{20,}$", line)]
    return "\n".join(lines[: rules[2]] if len(rules) > 2 else lines)


def large_rows(text: str, _: random.Random) -> str:
    """Rows in which nothing is 3 % are left out."""

    def small(line: str) -> bool:
        shares = re.findall(r"(\d+\.\d\d)%", line)
        return len(shares) > 3 and all(float(share) < 3 for share in shares)

    return "\n".join(line for line in text.split("\n") if not small(line))


def rows_alone(text: str, _: random.Random) -> str:
    """The pareto table from its first line's totals on, without any header."""
    at = text.rfind("Pareto")
    lines = text[at:].split("\n")
    first = next((i for i, line in enumerate(lines) if re.match(r"\s+-{20,}", line)), 0)
    return "\n".join(lines[first:])


def pareto_rows(text: str) -> int:
    """How many rows of offsets a text has, counted by their percentages."""
    return sum(1 for line in text.split("\n") if re.search(r"\d\.\d\d%\s+\d+\.\d\d%.*\s0x", line))


# perf.data


def description_of(samples: Sequence[Sample], program: Program, machine: Machine, pmu: Pmu) -> Description:
    """What a perf.data file of these samples holds."""
    made = FileMachine(cpus=machine.cpus, nodes=machine.sockets, hostname="lab", memory_bytes=16 << 30)
    events = {"intel": intel_events, "ibs": ibs_events, "spe": spe_events}[pmu.family](machine.cpus)
    code = _code(program)
    accesses = [
        Access(
            sample.address,
            sample.kind,
            code[sample.function] + 0x20 + 7 * sample.operation,
            sample.cpu,
            Thread(PID, PID + sample.thread, program.comm),
            made.physical(0, sample.address % (1 << 30)),
            not program.kernel,
        )
        for sample in samples
    ]
    kernel: Image | None = None
    if program.kernel:
        kernel = image(KERNEL_TEXT, list(code), [("data", 64)], bytes(20))
        kernel = Image(
            kernel.text,
            kernel.data,
            [type(symbol)(symbol.name, code.get(symbol.name, symbol.address), 0x140) for symbol in kernel.symbols[:-1]],
            kernel.build_id,
        )
    return Description("lab", File(made, events), accesses, kernel)


def perf_data(samples: Sequence[Sample], program: Program, machine: Machine, pmu: Pmu, path: Path) -> Path | None:
    """Writes the perf.data file; gives its kernel's symbols where there are any."""
    description = description_of(samples, program, machine, pmu)
    description.write(path)
    if description.kernel is None:
        return None
    symbols = path.with_suffix(".kallsyms")
    symbols.write_text(description.kernel.kallsyms(), encoding="utf-8")
    return symbols


STYLES: dict[str, Style] = {
    "default": Style("6.1"),
    "-N": Style("6.1", node_info=1),
    "-NN": Style("6.1", node_info=2),
    "-c tid,iaddr": Style("6.1", tid=True),
    "-NN -c tid,iaddr": Style("6.1", tid=True, node_info=2),
    "-c pid,iaddr": Style("6.1", pid=True),
    "perf 4.10": Style("4.10", pid=True),
    "perf 5.4": Style("5.4", pid=True),
    "perf 5.11": Style("5.11"),
    "perf 5.17": Style("5.17"),
    "browser": Style("6.1", browser=True),
    "browser 5.4": Style("5.4", browser=True),
}
