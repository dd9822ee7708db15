"""Matrix products: stages that are products, and constant operands in packed layout."""
