# SPDX-License-Identifier: GPL-2.0-or-later
"""How code of run times gets names."""

import pytest

from lockline.analysis.user_space.run_times import switch_on, without_names
from lockline.recording import rows
from user_words import frame, java

JVM = java("/usr/lib/jvm/java-17/lib/server")


EVALUATES = "_PyEval_EvalFrameDefault"


@pytest.mark.parametrize(
    ("frames", "language"),
    [
        ((JVM, frame()), "Java with map"),
        ((java("/opt/jdk-21.0.2/lib/server"), frame()), "Java with map"),
        ((java("/usr/lib/jvm/java-11-openjdk-amd64/lib/server"), frame()), "Java without map"),
        ((java("/usr/lib/jvm/java-1.8.0-openjdk/jre/lib/amd64/server"), frame()), "Java without map"),
        # An image does not give its version.
        ((java("/opt/java/openjdk/lib/server"), frame()), "Java"),
        ((JVM, frame("void Threads.work()", "/tmp/perf-7.map")), ""),
        ((frame("uv_run", "/usr/bin/node"), frame()), "Node"),
        ((frame("Builtins_InterpreterEntryTrampoline", "/usr/bin/node"),), "Node"),
        ((frame("", "/usr/share/dotnet/libcoreclr.so"), frame("", "/memfd:doublemapper")), ".NET"),
        ((frame("", "/usr/bin/mono-sgen"), frame()), "Mono"),
        ((frame("work", "/usr/bin/server"), frame()), ""),
        ((frame(EVALUATES, "/usr/bin/python3.12"),), "Python"),
        ((frame(EVALUATES, "/usr/bin/python3.12"), frame("py::work:/srv/app.py", "/tmp/perf-7.map")), ""),
        ((frame(EVALUATES, "/usr/bin/python3.11"),), ""),
    ],
)
def test_how_code_gets_names(frames: tuple[rows.Frame, ...], language: str) -> None:
    found = without_names({7: frames})
    assert found == ({language: (7,)} if language else {})
    assert all(switch_on(name, (7,)) for name in found)
