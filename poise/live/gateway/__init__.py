"""The gateway: clients on one side, engines on the other, and `Control` in between."""
