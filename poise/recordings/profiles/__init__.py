"""Operator profiles: reads any known layout, cleans the rows, and fits operator tables to them."""
