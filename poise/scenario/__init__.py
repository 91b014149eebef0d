"""Scenarios: from a description (Python objects, or one strict YAML file) to a simulated run."""
