"""Programs of stages: loop nests with one write, over buffers."""
