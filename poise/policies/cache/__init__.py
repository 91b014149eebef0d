"""Cache rules: how long the KV of a request that ended stays, and what is evicted first."""
