"""The cluster's decisions: what is known, who waits, what is in flight, and `Control`, which asks the policies."""
