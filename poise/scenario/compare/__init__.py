"""`poise compare`: policies × loads × seeds under the same arrivals, and what can be said of their differences."""
