"""Measured training runs, answered: readers of each source, what they leave out, and scores.

run        Run: one measured configuration of one source, or why it cannot be answered
read by    vtrain, layouts, table
answered   answer.py; scored by score.py: step time, peak memory, out-of-memory outcomes, regret of the layout chosen
"""
