"""Which replicas use KV blocks of others; one file for each policy."""
