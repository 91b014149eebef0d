"""The admin port: what the gateway does just now, as a page, as JSON, and for Prometheus."""
