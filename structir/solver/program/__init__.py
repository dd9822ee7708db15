"""The solver on programs: constraint generation, inference, defaulting, explanations."""
