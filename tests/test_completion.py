"""Shell completion: what a shell gets when it asks, and the scripts by which it does."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from poise.cli import main
from poise.cli.completion import SHELLS, VARIABLE


def completed(words: str) -> set[str]:
    """The answers for the last of some words."""
    environment = {VARIABLE: "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "poise"], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert not done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "some"),
    [
        ("poise pl", {"plan"}),
        ("poise train pl", {"plan"}),
        ("poise simulate --rou", {"--router"}),
        ("poise simulate x.yaml --router prefix_c", {"prefix_cache"}),
        ("poise plan --devices H100,L40", {"H100,L40S"}),
        ("poise plan --model llama-3.1-8", {"llama-3.1-8b"}),
    ],
)
def test_a_shell_gets_commands_options_and_names(words: str, some: set[str]) -> None:
    found = completed(words)
    assert some <= found
    assert all(each.startswith(words.rpartition(" ")[2]) for each in found)


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_ask_poise(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert "poise" in text and VARIABLE in text


def test_bash_takes_its_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    done = subprocess.run(["bash", "-n"], input=capsys.readouterr().out, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "tcsh: is no shell that it knows; give one of bash, zsh, fish, powershell" in capsys.readouterr().err
