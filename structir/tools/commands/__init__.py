"""The commands of `structir`: each file defines the function of the same name."""
