"""Serving in real time: the gateway, the emulated engine and their parts; the only async package that reads a clock."""
