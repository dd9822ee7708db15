"""The operating system: cached and private files, locks across forks, cores, and terminals."""
