"""What the gateway reads of a request (body, text, tokens, tenant) and of its engines (metrics, KV events, health, …).

Each part has a pure half, bytes or events in and values out, and a thin half that owns the socket, file or thread.
"""
