"""Reverse mode: functions that give what comes back to the parameters of other functions."""
