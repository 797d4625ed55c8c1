"""Assembles authentication, authorization, TLS and their files from the settings of a process."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog
from starlette.types import ASGIApp

from app.api.auth.authentication import (
    Authentication,
    Authenticator,
    NoAuthentication,
    ScrapeAuthentication,
    SeedAuthenticator,
    TokenFileAuthenticator,
)
from app.api.auth.authorization import AccessAuthority, ByRole, BySeed, DecisionCounter
from app.api.auth.reviews import ReviewService
from app.core.clock import Clock
from app.core.config.settings import API_FEATURE, ApiSettings, Exposure, ServiceSettings
from app.core.config.token_file import TokenFile, load_token_file
from app.core.config.values import AuthMode
from app.core.metrics import Metrics
from app.core.ports import REVIEW_FEATURE
from app.core.tasks import Tasks
from app.core.tls import TlsFiles, load_tls, server_context

if TYPE_CHECKING:
    from app.core.kube.reviews import Reviewer

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AccessGate:
    """The access control of a process's ports."""

    exposure: Exposure
    authenticator: Authenticator
    authority: AccessAuthority
    decisions: DecisionCounter
    reviews: ReviewService | None = None
    """None: neither API nor metrics need reviews by the seed."""
    scraping: bool = False
    """Whether scrapers of `--metrics-bind-addr` must authenticate (`--metrics-auth`)."""
    tls: ssl.SSLContext | None = None
    """TLS of the API's port; None: plain HTTP."""
    files: tuple[TokenFile | TlsFiles, ...] = ()
    """Files of tokens and certificates, which are followed while the process runs."""

    def around_api(self, app: ASGIApp) -> ASGIApp:
        """Wrap the API in authentication."""
        return Authentication(app, authenticator=self.authenticator, decisions=self.decisions)

    def around_metrics(self, app: ASGIApp) -> ASGIApp:
        """Wrap the application of the metrics port in authentication, if that is configured."""
        if self.reviews is None or not self.scraping:
            return app
        return ScrapeAuthentication(app, reviews=self.reviews, decisions=self.decisions)

    def start(self, tasks: Tasks) -> None:
        """Start to follow the files."""
        for each in self.files:
            _ = tasks.shared(each.run, each.what)

    def features_off(self) -> Mapping[str, str]:
        """Reasons by name of the features of the API that are off."""
        reviews = None if self.reviews is None else self.reviews.off
        found = {API_FEATURE: self.exposure.off, REVIEW_FEATURE: reviews}
        return {name: why for name, why in found.items() if why is not None}

    def troubles(self) -> Mapping[str, str]:
        """Changed files that cannot be used, with the reason; their last good content stays in force."""
        return {each.what: each.trouble for each in self.files if each.trouble is not None}


async def open_gate(
    settings: ServiceSettings, reviewer: "Reviewer | None", clock: Clock, metrics: Metrics
) -> AccessGate:
    """Create the gate of a process, and read the files that the settings name.

    Args:
        settings: The flags; settings without flags of the API serve this machine alone.
        reviewer: Sends reviews to the seed; None: there is no seed to ask.
        clock: Tells the age of remembered reviews and of files.
        metrics: Count the decisions.

    Raises:
        ConfigurationError: A file cannot be used.
    """
    exposure, reviews = settings.exposure, ReviewService(reviewer, clock, metrics)
    decisions = DecisionCounter(metrics)
    if exposure.off is not None:
        log.warning("a feature is off", feature=API_FEATURE, reason=exposure.off)
        metrics.feature(API_FEATURE, off=True)
    tls, tokens, scraping = None, None, False
    if isinstance(settings, ApiSettings):
        scraping = settings.metrics_auth
        if settings.tls_cert_file is not None and settings.tls_private_key_file is not None:
            tls = await load_tls(settings.tls_cert_file, settings.tls_private_key_file, clock)
        if settings.auth_token_file is not None:
            tokens = await load_token_file(settings.auth_token_file, clock)
    authenticator: Authenticator
    authority: AccessAuthority
    match exposure.mode:
        case AuthMode.NONE:
            authenticator, authority = NoAuthentication(), ByRole(decisions)
        case AuthMode.TOKEN:
            assert tokens is not None  # noqa: S101 - the settings see to it
            authenticator, authority = TokenFileAuthenticator(tokens), ByRole(decisions)
        case AuthMode.KUBERNETES:
            authenticator, authority = SeedAuthenticator(reviews), BySeed(reviews, decisions)
    return AccessGate(
        exposure,
        authenticator,
        authority,
        decisions,
        reviews if scraping or exposure.mode is AuthMode.KUBERNETES else None,
        scraping,
        None if tls is None else server_context(tls),
        tuple(each for each in (tls, tokens) if each is not None),
    )
