"""The cluster's decisions: belief, queue, requests in flight, and `Control`, which calls the policies."""
