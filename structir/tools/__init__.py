"""What people work with: the command `structir`, the random program generator."""
