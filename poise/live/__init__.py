"""The same policies live: a gateway before real engines, an emulated engine, and what the gateway knows of them."""
