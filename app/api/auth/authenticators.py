"""Who makes a request, in each of the three modes; none of them keeps a token."""

from typing import Protocol

from app.api.auth.bearer import Headers, nobody, token_of
from app.api.auth.reviews import Reviews, Trust
from app.api.problems import Problem, ProblemType
from app.core.config.token_file import TokenFile
from app.core.model.callers import Caller, Role
from app.core.review_ports import AUDIENCE


class Authenticator(Protocol):
    """Says who calls."""

    async def caller(self, headers: Headers, trust: Trust, peer: str) -> Caller:
        """Who makes a request with these headers, from this address.

        Raises:
            Problem: 401 where nobody is known to call; 503 or 429 where that cannot be said.
        """
        ...


class Everybody:
    """`--auth-mode=none`: on a loopback address everybody is an admin."""

    async def caller(self, headers: Headers, trust: Trust, peer: str) -> Caller:  # noqa: ARG002 - nobody is asked who he is
        """The same for all."""
        return Caller("anonymous", Role.ADMIN)


class OfTokenFile:
    """`--auth-mode=token`: those of the token file, as it is now."""

    def __init__(self, file: TokenFile) -> None:
        self._file = file

    async def caller(self, headers: Headers, trust: Trust, peer: str) -> Caller:  # noqa: ARG002 - the file costs no request
        """The one whose token has that hash; raises Problem."""
        found = self._file.value.caller(token_of(headers))
        if found is None:
            raise _unknown("the token is not one of the token file")
        return found


class OfSeed:
    """`--auth-mode=kubernetes`: those whom the seed knows.

    Args:
        reviews: asks the seed.
        audience: what a token must have been made for; None: for the API server itself.
    """

    def __init__(self, reviews: Reviews, audience: str | None = AUDIENCE) -> None:
        self._reviews, self._audience = reviews, audience

    async def caller(self, headers: Headers, trust: Trust, peer: str) -> Caller:
        """The one whose token it is; raises Problem."""
        try:
            return await self._caller(headers, trust, peer)
        except Problem as problem:
            if problem.kind is ProblemType.UNAUTHENTICATED:
                await self._reviews.check_possible()
            raise

    async def _caller(self, headers: Headers, trust: Trust, peer: str) -> Caller:
        token = token_of(headers)
        found = await self._reviews.caller(token, audience=self._audience, trust=trust, peer=peer)
        if found is None:
            made_for = self._audience or "its API server"
            raise _unknown(f"the token is not one that the seed knows, made for {made_for}")
        return found


def _unknown(detail: str) -> Exception:
    return nobody(detail, "invalid_token")
