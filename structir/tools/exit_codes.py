"""The exit codes of the commands."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit status of a command."""

    WELL = 0
    WRONG_PROGRAM = 1
    WRONG_USAGE = 2
    WRONG_RUN = 3
    WRONG_PASS = 4
    FOUND = 5
    BUG = 70
    INTERRUPTED = 130


EXIT_CODES = {
    ExitCode.WELL: "success",
    ExitCode.WRONG_PROGRAM: "invalid program; every error is printed with its location",
    ExitCode.WRONG_USAGE: "invalid command line",
    ExitCode.WRONG_RUN: "the program failed at run time",
    ExitCode.WRONG_PASS: "a pass broke the program",
    ExitCode.FOUND: "the fuzzer found a failure",
    ExitCode.BUG: "internal error: a bug in StructIR",
    ExitCode.INTERRUPTED: "interrupted",
}
