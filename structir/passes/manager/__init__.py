"""What runs, reads and watches pipelines of passes."""
