"""Plans memory: lifetimes, offsets in arenas, and rematerialization."""
