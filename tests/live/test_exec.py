# SPDX-License-Identifier: GPL-2.0-or-later
"""A process executes another program, with code at the same addresses: its stacks are unwound as that one's."""

import struct
import subprocess
import time
from pathlib import Path

from support import Collector, Recording, wait_for

# Waits for a futex that nobody wakes, again and again, by ever other ways: as long as stacks are new, mappings are read
# again.  The two programs of this source have other frames.
SOURCE = """
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int word;

__attribute__((noinline)) int NAME(void)
{
	volatile char frame[FRAME];
	const struct timespec time = {.tv_nsec = 2000000};

	frame[0] = frame[FRAME - 1] = 1;
	syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, 0, 0);
	return frame[0] + word;
}

__attribute__((noinline)) int way(int depth, unsigned int turns)
{
	int got;

	if (!depth)
		return NAME();
	if (turns & 1) {
		got = way(depth - 1, turns >> 1);
		__asm__ volatile("nop");
	} else {
		got = way(depth - 1, turns >> 1);
	}
	__asm__ volatile("" : "+r"(got));
	return got + 1;
}

int main(int argc, char **argv)
{
	struct pollfd told = {.fd = 0, .events = POLLIN};
	unsigned int waits = 0;

	while (argc < 2 || !poll(&told, 1, 0))
		if (way(10, waits++ / 10) < 0)
			return 1;
	return execl(argv[1], argv[1], (char *)0);
}
"""
# With mappings that stay as they are for so long the next look at them is further off than the test waits, s.
STAYS_S = 4.0


def built(directory: Path, name: str, frame: int) -> Path:
    program = directory / name
    options = ["-O2", "-static", "-no-pie", f"-DNAME=in_{name}", f"-DFRAME={frame}", "-x", "c", "-"]
    subprocess.run(["cc", *options, "-o", program], input=SOURCE, text=True, check=True)
    return program


def callers(recording: Path, symbol: str) -> set[str]:
    """Functions whose calls of this one are on the sampled stacks, "" where it is the last frame."""
    with Recording(recording) as result:
        names = {
            (tgid, address): name for tgid, address, name in result.rows("SELECT tgid, address, symbol FROM frame")
        }
        stacks = result.rows("SELECT tgid, frames FROM stack")
    found = set()
    for tgid, frames in stacks:
        symbols = [names.get((tgid, address), "") for (address,) in struct.iter_unpack("<q", frames)]
        found |= {caller for name, caller in zip(symbols, [*symbols[1:], ""], strict=True) if name == symbol}
    return found


def test_stacks_are_of_the_program_that_runs(live: Path, recording: Path, tmp_path: Path) -> None:
    first, second = built(tmp_path, "first", 40), built(tmp_path, "second", 3000)
    with subprocess.Popen([first, second], stdin=subprocess.PIPE) as process:
        assert process.stdin
        try:
            with Collector(live, recording, "--futex", "-p", str(process.pid), "--interval", "200ms") as collector:
                wait_for(lambda: "way" in callers(recording, "in_first"), "a stack of the first program")
                time.sleep(STAYS_S)
                process.stdin.write(b"x")
                process.stdin.flush()
                wait_for(lambda: callers(recording, "in_second"), "a stack of the second program")
                assert collector.stop() == 0
        finally:
            process.kill()
    assert callers(recording, "in_second") == {"way"}
