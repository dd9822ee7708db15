"""Propagation rules for each constraint class, and the search that follows propagation."""
