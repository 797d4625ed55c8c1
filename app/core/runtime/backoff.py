"""How long to wait before the next try."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubles from `first` to `most`, in seconds."""

    first: float = 1.0
    most: float = 60.0

    def delay(self, failures: int) -> float:
        """The wait after `failures` failures in a row, counted from 1.

        Raises:
            ValueError: there was no failure.
        """
        if failures < 1:
            raise ValueError(f"a delay comes after a failure, not after {failures}")
        doublings = float(1 << min(failures - 1, 30))
        return min(self.most, self.first * doublings)

    def jittered(self, failures: int, randomness: float) -> float:
        """The same, up to half shorter for `randomness` in 0…1, so that many do not come back at once."""
        return self.delay(failures) * (1 - randomness / 2)
