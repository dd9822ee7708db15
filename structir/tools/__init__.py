"""What people work with: the command `structir`, and the random program generator."""
