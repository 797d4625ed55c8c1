"""`--service-account`: short-lived tokens of a ServiceAccount, which the operator mints with their own kubectl.

People log in to a seed by a client certificate or through a login plugin, and neither can be shown to the API of the
watchdog. So kubectl makes a token of a ServiceAccount by a TokenRequest, for the audience of the API alone and for an
hour, and the next one before it ends. Without the flag no plugin is run (threat T1 is about kubeconfigs of others).

The account says nothing of the person. So the seed is asked, with the operator's own credentials, by what name it knows
them (SelfSubjectReview), and that name goes along with each request. It is a claim: the watchdog shows it beside the
account in the audit, and trusts it in nothing.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar
from urllib.parse import quote

from app.cli.kubectl import Kubectl, KubectlFailed
from app.cli.problems import CommandFailed, Exit
from app.cli.tokens import TokenSource
from app.core.clock import Clock
from app.core.config.values import NamespacedName
from app.core.model.callers import AUDIENCE, CLAIMED_USER

T = TypeVar("T")

LIFETIME: Final = 3_600
"""Seconds that a token is asked for. A stream of events ends with the token that it was opened with."""
_RENEWED_AT: Final = 0.75
"""The part of a token's life after which the next one is made."""
_TRIED_AGAIN: Final = 10.0
"""Seconds between attempts to renew a token that still is good."""


@dataclass(frozen=True, slots=True, repr=False)
class _Minted:
    """A token, on our own time line: the clocks of this machine and of the seed need not agree."""

    token: str
    renewed: float
    """When the next one is due."""
    ends: float


class MintedTokens(TokenSource):
    """Makes tokens of one ServiceAccount, and the next one before each ends.

    Args:
        account: The ServiceAccount.
        kubectl: The operator's access to the seed.
        clock: Tells how old a token is.
        timeout: Seconds for one answer of the seed.
    """

    def __init__(
        self, account: NamespacedName, kubectl: Kubectl, clock: Clock, timeout: float
    ) -> None:
        self._account, self._kubectl = account, kubectl
        self._clock, self._timeout = clock, timeout
        self._now: _Minted | None = None
        self._made_at = float("-inf")
        self._person: str | None = None
        self._lock = asyncio.Lock()

    async def headers(self) -> Mapping[str, str]:
        """The token, and the person as the seed knows them.

        Raises:
            CommandFailed: The seed gives no token, and there is none that is still good.
        """
        async with self._lock:
            now = self._clock.now()
            if self._now is None or now >= self._now.renewed:
                self._now = await self._renewed(self._now)
        claim = {} if self._person is None else {CLAIMED_USER: quote(self._person, safe="@:._-")}
        return {"Authorization": f"Bearer {self._now.token}", **claim}

    def rejected(self) -> bool:
        """Drop a token that the server does not know, as after the machine has slept; whether another may do better."""
        if self._clock.now() - self._made_at < _TRIED_AGAIN:
            return False
        self._now = None
        return True

    async def _renewed(self, former: _Minted | None) -> _Minted:
        now = self._clock.now()
        try:
            return await self._mint()
        except CommandFailed:
            if former is None or now >= former.ends:
                raise
            return replace(former, renewed=min(now + _TRIED_AGAIN, former.ends))

    async def _mint(self) -> _Minted:
        """Make a token; the first time the seed is also asked who the operator is."""
        try:
            if self._person is None:
                self._person = await self._who()
            token, lives = await self._token()
        except KubectlFailed as refused:
            raise self._explained(refused) from refused
        at = self._made_at = self._clock.now()
        return _Minted(token, at + lives * _RENEWED_AT, at + lives)

    async def _who(self) -> str | None:
        """The name by which the seed knows the operator; None if it does not say (before Kubernetes 1.28)."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        try:
            said = await self._create("/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
        except KubectlFailed as refused:
            if refused.reason in {None, "Unauthorized"}:
                raise
            return None
        return _member(said, str, "status", "userInfo", "username")

    async def _token(self) -> tuple[str, int]:
        """A token for the API of the watchdog, and the seconds that it lives."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [AUDIENCE], "expirationSeconds": LIFETIME},
        }
        namespace, name = self._account.namespace, self._account.name
        said = await self._create(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", body
        )
        token = _member(said, str, "status", "token")
        if token is None:
            raise KubectlFailed("the answer is no TokenRequest")
        lives = _member(said, int, "spec", "expirationSeconds")
        return token, LIFETIME if lives is None else lives

    async def _create(self, path: str, body: Mapping[str, Any]) -> bytes:
        return await self._kubectl.create(path, body, self._timeout)

    def _explained(self, refused: KubectlFailed) -> CommandFailed:
        who, account, said = self._person or "you", self._account, refused.said
        match refused.reason:
            case "Unauthorized":
                note = "does kubectl auth whoami work?"
                return CommandFailed(
                    Exit.NOT_ALLOWED, f"the seed does not know you: {said}", [note]
                )
            case "Forbidden":
                needed = "create serviceaccounts/token, with this resourceName"
                note = f"that takes the right to {needed}: docs/authentication.md"
                message = f"{who} may not make tokens of the ServiceAccount {account}: {said}"
                return CommandFailed(Exit.NOT_ALLOWED, message, [note])
            case "NotFound":
                note = "the chart makes some with api.auth.serviceAccounts.create=true"
                message = f"there is no ServiceAccount {account}: {said}"
                return CommandFailed(Exit.NOT_FOUND, message, [note])
            case _:
                message = f"the seed gives no token of the ServiceAccount {account}: {said}"
                return CommandFailed(Exit.FAILED, message, passing=refused.passing)


def _member(said: bytes, kind: type[T], *names: str) -> T | None:
    """The member of JSON below these names; None where there is none of this type."""
    try:
        found: Any = json.loads(said)
        for name in names:
            found = found[name]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return found if isinstance(found, kind) else None
