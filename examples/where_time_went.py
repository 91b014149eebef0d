"""Slow links between prefill and decode replicas: what changed, for whom, and in the life of one request."""

from contextlib import chdir
from pathlib import Path

from poise.cli import main

with chdir(Path(__file__).parent):
    main(["diff", "disaggregated.yaml", "--set", "cluster.link_gb_s=2"])
    main(["story", "disaggregated.yaml", "880", "--set", "cluster.link_gb_s=2"])
