"""The errors a user can meet: each gives the fact, the number and the command that fixes it."""


class EdgeformerError(Exception):
    """Something the user must change; the command line prints it without a traceback."""

    exit_code = 2


class BundleError(EdgeformerError):
    """The bundle is damaged, hostile, or made for another version of edgeformer."""


class CheckFailed(EdgeformerError):
    """Everything could be read and run, and the result is not the one that was promised."""

    exit_code = 1
