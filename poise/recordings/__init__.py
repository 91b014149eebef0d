"""Recordings of real traffic: replay, calibration of step costs, and what-if questions."""
