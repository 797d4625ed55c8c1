"""`python -m app`, `dwd`, `dependency-watchdog`."""


def main() -> None:
    """Runs the program."""
