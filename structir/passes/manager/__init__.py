"""The pipeline parser, the rewrite driver, and instruments of passes."""
