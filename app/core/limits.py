"""A bucket of tokens: so many at once, so many a second over time."""


class Bucket:
    """Full at first; instants are handed in.

    Args:
        rate: tokens a second that flow in.
        burst: tokens that it holds.
        now: the instant that it is.
    """

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._tokens, self._at = burst, now

    def take(self, now: float) -> bool:
        """Takes one token, if there is one."""
        self._fill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def owe(self, now: float) -> float:
        """Takes one token, of those to come if need be; returns the seconds until it will be there."""
        self._fill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)

    def seconds_to(self, tokens: float, now: float) -> float:
        """How long it takes until there are so many."""
        self._fill(now)
        return max(0.0, (tokens - self._tokens) / self._rate)

    def _fill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now
