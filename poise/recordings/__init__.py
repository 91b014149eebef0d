"""What a recording of real traffic is worth: replayed, calibrated on, and asked "what if?"."""
