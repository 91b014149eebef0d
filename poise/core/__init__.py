"""The foundation of all packages: standard library only, no clock, no I/O."""

from poise.core.compiled import check

check(__path__[0])
