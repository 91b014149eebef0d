"""`poise experts`: where the copies of a model's experts live, planned from a recorded load."""
