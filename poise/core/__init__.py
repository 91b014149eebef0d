"""What everyone may know: standard library only, no clock, no I/O."""
