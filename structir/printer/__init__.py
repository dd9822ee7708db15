"""The text of programs, both ways: one table of forms, the writer, and the reader to IR."""
