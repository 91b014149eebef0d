"""The admin port: the gateway's current state as a page, as JSON, and for Prometheus."""
