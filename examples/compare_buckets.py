"""How large buckets of gradients should be, with all transfers of a training step on the links that they share."""

from pathlib import Path

from poise.cli import main

main(["compare", str(Path(__file__).with_name("step_buckets.yaml")), "--jobs", "1"])
