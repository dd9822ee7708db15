"""The CPU as a target of `structir.compile`."""

from structir.backend.executable import Executable

executable = Executable
