"""The loop IR: stages, and how they are composed, grouped, scheduled and written as text."""
