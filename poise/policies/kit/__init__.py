"""Data structures and models that several policies share; no policy stands here."""
