"""What all calls that write ask first."""

from app.api.problems import Problem, ProblemType
from app.api.views import Context


def refuse_in_dry_run(context: Context) -> None:
    """Returns in a process that may write.

    Raises:
        Problem: it was started with `--dry-run`.
    """
    if context.process.dry_run:
        detail = "this process was started with --dry-run: it reads, judges and plans, and writes nothing"
        raise Problem(ProblemType.DRY_RUN, detail)
