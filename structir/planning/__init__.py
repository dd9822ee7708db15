"""Memory: how long values live, where they lie, and which are worth computing twice."""
