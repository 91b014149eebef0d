"""A training step, or any other distributed computation, as one object: proven, simulated, executed and edited.

parts      Value, Task, Lane (task.py), Content (content.py); Program and its Builder (program.py)
proof      prove (prove.py): parts that fit and messages that match (index.py), deadlock (order.py, walk.py), memory
           (memory.py, bounds.py), gradients (contributions.py) by the rules of kinds (kinds.py, stages.py)
text       write_program, read_program, load_program (text.py, read.py, words.py)
time       timed (timed.py), memory at every instant (held.py), the critical path (critical.py); as CSV (table.py) and
           as a Perfetto timeline (perfetto.py)
"""

from __future__ import annotations

from poise.program import exchange as _exchange
from poise.program import stages as _stages
from poise.program.content import Content
from poise.program.kinds import joint_rule, rule
from poise.program.program import Builder, Program
from poise.program.prove import Proof, prove
from poise.program.task import Lane, Task, Value

assert _exchange and _stages  # their rules are noted when they are imported

__all__ = ["Builder", "Content", "Lane", "Program", "Proof", "Task", "Value", "joint_rule", "prove", "rule"]
