"""Operator profiles: read from any known layout, cleaned, and what costs are fitted to."""
