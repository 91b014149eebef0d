"""The world with real time: gateway, emulated engine and what joins them; only here is code async and reads a clock."""
