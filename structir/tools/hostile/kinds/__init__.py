"""The kinds of hostile input, one a file."""
