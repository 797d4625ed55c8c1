"""Limits the undecoded bytes of all answers that are being read (threat T7)."""

import asyncio
from types import TracebackType
from typing import Final, Self

MIB: Final = 1 << 20
MAX_BODY: Final = 64 * MIB
MAX_TOTAL: Final = 256 * MIB


class ByteBudget:
    """A total that all answers share; an answer that does not fit waits.

    Answers grow while they are read, so two that wait for each other's bytes could deadlock. The banker's algorithm
    prevents that: bytes are lent only if what remains still lets the largest answer be read to its end.
    """

    def __init__(self, total: int = MAX_TOTAL, largest: int = MAX_BODY) -> None:
        if total < largest:
            raise ValueError("the largest body must fit")
        self._total, self._largest = total, largest
        self._held: dict[Claim, int] = {}
        self._used = 0
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def used(self) -> int:
        """Bytes that are lent now."""
        return self._used

    def claim(self) -> "Claim":
        """Returns the claim of one answer, a context manager that gives its bytes back."""
        claim = Claim(self)
        self._held[claim] = 0
        return claim

    def give_back(self, claim: "Claim") -> None:
        """Frees the bytes of `claim`."""
        self._used -= self._held.pop(claim)
        self._wake()

    async def lend(self, claim: "Claim", amount: int) -> None:
        """Waits until `claim` may hold `amount` more bytes."""
        while not self._fits(claim, amount):
            freed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(freed)
            await freed
        self._held[claim] += amount
        self._used += amount

    def _fits(self, claim: "Claim", amount: int) -> bool:
        left = self._total - self._used - amount
        if left >= self._largest:
            return True
        most = max(*self._held.values(), self._held[claim] + amount)
        return left >= self._largest - most

    def _wake(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)


class Claim:
    """The bytes of one answer."""

    __slots__ = ("_budget",)

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._budget.give_back(self)

    async def grow(self, amount: int) -> None:
        """Waits until `amount` more bytes may be held."""
        await self._budget.lend(self, amount)
