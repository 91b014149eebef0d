"""What the gateway knows: of requests (asked, text, tokens, tenant) and of engines (metrics, KV events, health, discovery).

Each part has a pure half, bytes or events in and values out, and a thin half that owns the socket, file or thread.
"""
