"""`poise ui`: a local page that writes scenarios, runs the commands of Poise on them, and shows what they wrote.

It computes nothing itself: each run is `poise compare` or `poise plan` as a process of its own, and its
files are theirs.
"""
