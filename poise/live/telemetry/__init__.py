"""What engines report: metrics pages, health, and KV-cache events."""
