"""Which requests change their replica after they were sent; one file for each policy."""
