# SPDX-License-Identifier: GPL-2.0-or-later
"""Manual pages and completion for shells, as made from the tables of options: read by groff, bash, zsh and fish."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lockline.cli import help as helps

TOP = Path(__file__).resolve().parents[2]
COMMANDS = [name for name in helps.COMMANDS if name != "help"]


def run(*command: str | Path) -> str:
    """What a command prints; it succeeds and has no complaints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def manuals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages."""
    out = tmp_path_factory.mktemp("manuals")
    run(sys.executable, TOP / "scripts" / "make-help", "manuals", out)
    return out


@pytest.fixture(scope="module")
def completions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files for shells."""
    out = tmp_path_factory.mktemp("completions")
    run(sys.executable, TOP / "scripts" / "make-help", "completions", out)
    return out


def options_of_collector(command: str) -> set[str]:
    """The long options that the collector's help lists."""
    text = run(TOP / "build" / "bin" / "lockline-collect", command, "--help")
    return set(re.findall(r"^  .{4}(--[a-z0-9-]+)", text, re.MULTILINE))


def shown(page: Path) -> str:
    """A page as plain text; groff has no warning about it."""
    text = run("groff", "-man", "-ww", "-Tascii", "-P-cbou", "-rLL=200n", "-rHY=0", page)
    return re.sub(r"[ \n]+", " ", text)


def test_each_command_has_a_page(manuals: Path) -> None:
    assert sorted(page.name for page in manuals.iterdir()) == sorted(f"lockline-{name}.1" for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_is_clean_and_has_examples(manuals: Path, command: str) -> None:
    text = shown(manuals / f"lockline-{command}.1")
    assert f"lockline-{command} - " in text
    for _, how in helps.EXAMPLES[command]:
        assert how in text
    if command in ("record", "watch"):
        assert options_of_collector(command) - set(re.findall(r"--[a-z0-9-]+", text)) == set()


def test_the_page_of_all_commands_is_clean_and_names_them(manuals: Path) -> None:
    text = shown(TOP / "docs" / "lockline.1")
    for command in COMMANDS:
        assert f"lockline-{command}(1)" in text, command


BASH = """
source "$1"; shift
complete -p lockline >/dev/null || exit 1
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_shtab_lockline
printf '%s\\n' "${COMPREPLY[@]}"
"""
# zsh completes on a terminal alone: this one reads what a shell in a pseudo-terminal lists.
ZSH = """
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1=; unsetopt zle_bracketed_paste 2>/dev/null; fpath=($1 \\$fpath); autoload -Uz compinit; compinit -D -u"
zpty -w z "zstyle ':completion:*' list-prompt ''; zstyle ':completion:*' verbose no; LISTMAX=10000; COLUMNS=200"
zpty -w z "print RE''ADY"
zpty -r -m z seen '*READY*'
zpty -n -w z "$2"$'\\t\\t'
zpty -r -m z seen "*$3*" && print found
zpty -d z
"""

WORDS = [
    (["lockline", "re"], {"record", "report"}),
    (["lockline", "record", "--hi"], {"--hitm", "--hitm-rate", "--hitm-event"}),
    (["lockline", "watch", "--acc"], {"--access"}),
    (["lockline", "report", "--epi"], {"--episodes"}),
    (["lockline", "c2c", "report", "--by", ""], {"lines", "functions"}),
]


@pytest.mark.parametrize(("words", "wanted"), WORDS, ids=[" ".join(words) for words, _ in WORDS])
def test_bash_completes(completions: Path, words: list[str], wanted: set[str]) -> None:
    text = run("bash", "--norc", "-c", BASH, "bash", completions / "lockline.bash", *words)
    assert set(text.split()) == wanted


@pytest.mark.parametrize(("words", "wanted"), WORDS, ids=[" ".join(words) for words, _ in WORDS])
def test_fish_completes(completions: Path, words: list[str], wanted: set[str]) -> None:
    program = f"source {completions / 'lockline.fish'}; complete -C '{' '.join(words)}'"
    text = run("fish", "--no-config", "-c", program)
    assert {line.split("\t")[0] for line in text.splitlines()} == wanted


def test_zsh_completes(completions: Path) -> None:
    run("zsh", "-n", completions / "_lockline")
    assert run("zsh", "-f", "-c", ZSH, "zsh", completions, "lockline record --hitm-", "--hitm-event").strip() == "found"
