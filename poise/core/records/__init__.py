"""What happened: results by request, latency attribution, and the trace of events and actions."""
