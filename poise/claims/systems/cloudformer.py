"""CloudFormer: predicting what neighbours on shared machines cost."""

from poise.claims.claim import Claim

CLAIM = Claim(
    system="CloudFormer",
    paper="arXiv 2509.03394",
    year=2025,
    slot="cost",
    policies=("interference",),
    headline="performance among unknown neighbours is predicted with a mean absolute error of 7.8 %",
    conditions="virtual machines in a public cloud, 206 metrics each second, a transformer over time and metrics",
    trust="abstract",
    untestable="it is learned from metrics of machines that are not simulated; only its error and the slowdown that it "
    "tells are modelled",
)
