# SPDX-License-Identifier: GPL-2.0-or-later
"""In guests: the load that shares lines (tests/workloads/shared_lines), its futex bucket, and what watching shows."""

import json
import subprocess
from pathlib import Path
from typing import Any

from guest import Guest

LOCKLINE = Path(__file__).resolve().parents[2] / "build" / "bin" / "lockline"


def show_watched(recording: Path, btf: Path | None = None) -> Any:
    """The one line of a recording, as JSON; its own types name the members, or those given."""
    command = [LOCKLINE, "watch", "-i", recording, "--format", "json", "--addresses"]
    command += ["--btf", btf] if btf else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = json.loads(done.stdout)["lines"]
    return line


def check_run_queue(guest: Guest, least_told: float) -> None:
    """run.lockline, of a run queue's line; least_told: share of the accesses of which it is known what they did."""
    hits, length = guest.rows("run.lockline", "SELECT sum(hits), sum(length_ns) FROM watch_window")[0]
    assert hits > 10
    assert length > 0
    assert guest.rows("run.lockline", "SELECT type, type_from FROM watch") == [("rq", "symbol")]
    known = "SELECT sum(records), sum(CASE WHEN loads OR stores THEN records ELSE 0 END) FROM memory_access"
    records, told = guest.rows("run.lockline", known)[0]
    assert told >= least_told * records
    names = {row[0] for row in guest.rows("run.lockline", "SELECT symbol FROM memory_code")}
    assert any(part in name for name in names for part in ("sched", "queue", "raw_spin_rq")), names


# Who waits for the load's answer reads, and makes no process meanwhile: what others do may be followed, too.
START_LOAD = """
mkfifo /tmp/commands /tmp/answers
shared_lines < /tmp/commands > /tmp/answers &
load=$!
exec 3> /tmp/commands 4< /tmp/answers
answer() { read -r answer <&4 && echo "$answer" >> told; }
answer
"""

# Leaves the address of the bucket in $bucket: a kprobe tells the argument of a function that is called with it.
FIND_BUCKET = """
section=$PWD
mount -t tracefs tracefs /sys/kernel/tracing
cd /sys/kernel/tracing
first=$([ $(uname -m) = aarch64 ] && echo %x0 || echo %di)
echo "p:unlock futex_q_unlock bucket=$first:x64" > kprobe_events
echo 'comm == "shared_lines"' > events/kprobes/unlock/filter
echo 1 > events/kprobes/unlock/enable
echo futex 10 0 >&3; read -r answer <&4
echo 0 > events/kprobes/unlock/enable
bucket=$(sed -n 's/.*bucket=//p' trace | sort | uniq -c | sort -n | awk 'END { print $2 }')
echo > kprobe_events
cd "$section"
echo $bucket > bucket
"""

# Leaves the address of the bucket that perf's threads on both CPUs use most, and perf ($bench) stopped.
FIND_SHARED_BUCKET = r"""
section=$PWD
cd /sys/kernel/tracing
echo 64 > buffer_size_kb
echo 'p:unlock futex_q_unlock bucket=%di:x64' > kprobe_events
echo 'comm == "futex-hash"' > events/kprobes/unlock/filter
seen() { grep -q "$1.*bucket=" trace; }
# While events come, a reader of the trace does not get to its end.
until seen '\[000\]' && seen '\[001\]' && [ "$(grep -c bucket= trace)" -ge 1000 ]; do
    kill -CONT $bench
    echo 1 > events/kprobes/unlock/enable
    sleep 0.5
    kill -STOP $bench
    echo 0 > events/kprobes/unlock/enable
done
bucket=$(awk '
    /bucket=/ {
        match($0, /\[[0-9]+\]/)
        cpu = substr($0, RSTART, RLENGTH)
        sub(/.*bucket=/, "")
        used[$0]
        times[$0 cpu]++
    }
    END {
        for (one in used) {
            least = times[one "[000]"] < times[one "[001]"] ? times[one "[000]"] : times[one "[001]"]
            if (least + 0 > most) { most = least; found = one }
        }
        print found
    }' trace)
echo > kprobe_events
cd "$section"
"""

BUCKET_MEMBERS = {0: "waiters", 4: "lock", 8: "chain.next", 16: "chain.prev"}
