"""Every error that Poise raises on purpose.

PoiseError                 something went wrong; the message says what and how to cure it
├── UserError              the user's input is wrong: one line, a cure, exit code 2
│   ├── ScenarioError      a scenario file or an override (names file, line and field)
│   ├── TraceError         a workload file (names file and row)
│   ├── CapacityError      a model that does not fit its devices (says what would)
│   ├── ScheduleError      a pipeline schedule that cannot run, or trains wrongly (names rank, slot and operation)
│   └── ProgramError       a Program that cannot run, or trains wrongly (names lane, slot and task)
├── RankError              a rank of a training job failed, stalled or was lost (names rank and operation)
├── PolicyError            a policy broke its contract (names the policy and the rule)
└── InvalidTransition      a request was moved between phases that are not joined (prints its story)
"""

from __future__ import annotations


class PoiseError(Exception):
    """Base of all errors raised on purpose."""


class UserError(PoiseError):
    """The user's input is wrong; `str()` is one line that names the value, the rule and the cure."""


class ScenarioError(UserError):
    """A scenario file or an override is wrong."""


class TraceError(UserError):
    """A workload file is wrong."""


class CapacityError(UserError):
    """A model does not fit the devices it was given."""


class ScheduleError(UserError):
    """A pipeline schedule cannot run, cannot be made, or would give wrong gradients."""


class ProgramError(UserError):
    """A Program cannot run, or would give wrong gradients."""


class RankError(PoiseError):
    """A rank of a training job failed, stalled or was lost."""


class PolicyError(PoiseError):
    """A policy broke its contract."""


class InvalidTransition(PoiseError):
    """A request was moved between two phases that no transition joins."""
