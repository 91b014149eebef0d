"""Which layout and schedule make a training step shortest, where ranks and microbatches differ by chance."""

from pathlib import Path

from poise.cli import main

main(["compare", str(Path(__file__).with_name("step.yaml")), "--jobs", "1"])
