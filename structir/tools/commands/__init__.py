"""The commands of `structir`, one a file: the function named like its file is the command."""
