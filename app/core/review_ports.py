"""The door to the seed's word on who a caller is, and what he may do."""

from typing import Protocol

from app.core.model.callers import Access, Caller

AUDIENCE = "dependency-watchdog"
"""Tokens must be made for it, so that they are worth nothing elsewhere (threat T14)."""
GROUP = "dependency-watchdog.gardener.cloud"
"""Of the resources that SubjectAccessReviews name."""


class Reviewer(Protocol):
    """Asks the seed; each method may raise a `ClusterError`, and answers within 3 s."""

    async def authenticate(self, token: str, *, audience: str | None = AUDIENCE) -> Caller | None:
        """Whose token it is, if it was made for `audience` (None: for the API server itself); None: nobody's."""
        ...

    async def allowed(self, caller: Caller, access: Access) -> bool:
        """Whether the caller may do this."""
        ...
