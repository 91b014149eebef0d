"""`poise compare`: policies × loads × seeds under the same arrivals, and the significance of their differences."""
