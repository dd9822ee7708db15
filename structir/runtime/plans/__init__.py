"""Plans: the instructions of compiled functions, and how their sizes and memory are found."""
