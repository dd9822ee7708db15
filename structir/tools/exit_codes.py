"""The exit codes of the commands."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit status of a command."""

    SUCCESS = 0
    INVALID_PROGRAM = 1
    INVALID_USAGE = 2
    RUN_TIME_ERROR = 3
    PASS_ERROR = 4
    FUZZ_FAILURE = 5
    NOT_DECIDED = 6
    INTERNAL_ERROR = 70
    INTERRUPTED = 130


EXIT_CODES = {
    ExitCode.SUCCESS: "success",
    ExitCode.INVALID_PROGRAM: "invalid program; every error is printed with its location",
    ExitCode.INVALID_USAGE: "invalid command line",
    ExitCode.RUN_TIME_ERROR: "the program failed at run time",
    ExitCode.PASS_ERROR: "a pass changed the results of the program, or made it ill-formed",
    ExitCode.FUZZ_FAILURE: "a check of the fuzzer failed",
    ExitCode.NOT_DECIDED: "an equality of programs was neither proved nor refuted",
    ExitCode.INTERNAL_ERROR: "internal error: a bug in StructIR",
    ExitCode.INTERRUPTED: "interrupted",
}
