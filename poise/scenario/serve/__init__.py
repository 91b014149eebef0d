"""`poise serve`: the gateway file, and the live gateway that is built from it."""
