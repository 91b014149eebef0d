"""Gateways that report their requests to one another: workers of one machine, and gateways of several."""
