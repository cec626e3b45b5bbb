"""What the exit status of a command says to a script."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """The same for every command."""

    FINE = 0
    """Done, or all is as it should be."""
    ERROR = 1
    """One of the package's errors; its name and its text are one line on standard error."""
    USAGE = 2
    """Wrong arguments; argparse says which, and exits itself."""
    NO = 3
    """A check says no: `status --check`, `topics`, `failover` with something left to a person, a drill that failed."""
    SKIPPED = 4
    """A drill could not begin, or measured nothing."""
    RESTART = 75
    """`run --supervised`: it shut down cleanly because it is to be started again, as after an upgrade."""
    PERMANENT = 78
    """`run --supervised`: a restart would meet the same error; a person has to correct the job or a setting first."""
    INTERRUPTED = 130
    """Ctrl-C."""
