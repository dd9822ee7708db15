"""The CPU as a target of `structir.compile`."""

from structir.runtime.executable import compiled

executable = compiled
