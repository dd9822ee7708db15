"""The shape solver: what is known of sizes and ranks, completed in both directions, and why."""
