"""The targets of compilation: each package with a module `target` is one."""
