"""What everyone may know: standard library only, no clock, no I/O."""

from poise.core.built import check

check(__path__[0])
