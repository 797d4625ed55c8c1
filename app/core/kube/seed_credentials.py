"""Our identity in the seed: the pod's ServiceAccount or an operator's kubeconfig, read again as they rotate."""

import asyncio
import importlib
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import structlog

from app.core.clock import Clock
from app.core.errors import ConfigurationError, CredentialRefused, Mistake
from app.core.kube import kubeconfig
from app.core.tls import no_password

log = structlog.get_logger(__name__)

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
READ_AGAIN: Final = 60.0
"""Seconds after which the files are read again: the kubelet renews a token minutes before it expires."""


@dataclass(frozen=True, slots=True, eq=False)
class SeedIdentity:
    """The address of the seed's API server and our credentials; its repr shows no secret."""

    origin: str
    context: ssl.SSLContext
    """The same object while CA and client certificate are unchanged."""
    token: str | None

    def __repr__(self) -> str:
        return f"SeedIdentity({self.origin})"


class SeedCredentials(Protocol):
    """A source of `SeedIdentity`s."""

    async def current(self) -> SeedIdentity:
        """Returns the current identity."""
        ...

    async def refresh(self) -> None:
        """Reads the files again at once; keeps the former identity if that fails."""
        ...


@dataclass(frozen=True, slots=True)
class _Contents:
    """What the files say."""

    origin: str
    token: str | None
    """Empty if the file is, as may be for a moment while it is renewed."""
    trust: tuple[object, ...]
    """What `context` is made of."""
    context: Callable[[], ssl.SSLContext]

    def __repr__(self) -> str:
        return f"_Contents({self.origin})"


class FileCredentials:
    """Credentials in files; keeps the last identity for when reading fails in the middle of a rotation."""

    def __init__(
        self, clock: Clock, read: Callable[[], _Contents], first: _Contents, context: ssl.SSLContext
    ) -> None:
        self._clock, self._read, self._contents = clock, read, first
        self._identity = SeedIdentity(first.origin, context, first.token)
        self._read_at = clock.now()

    @classmethod
    async def in_cluster(
        cls, clock: Clock, environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT
    ) -> "FileCredentials":
        """Reads the ServiceAccount that is mounted into the pod.

        Raises:
            ConfigurationError: we are not in a cluster, or its files cannot be read.
        """
        host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
        if not host or not port:
            raise _mistake(
                "environment", "KUBERNETES_SERVICE_HOST", "is not set, and there is no --kubeconfig"
            )
        origin = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        made = await cls._first(clock, partial(_service_account, origin, folder))
        if not (await made.current()).token:
            raise _mistake(str(folder / "token"), "", "is empty")
        return made

    @classmethod
    async def of_kubeconfig(cls, clock: Clock, path: Path) -> "FileCredentials":
        """Reads a kubeconfig of the operator, who is trusted: kubernetes_asyncio may do whatever kubectl would.

        Raises:
            ConfigurationError: it cannot be read, or uses what we do not support.
        """
        return await cls._first(clock, partial(_kubeconfig, path))

    @classmethod
    async def _first(cls, clock: Clock, read: Callable[[], _Contents]) -> "FileCredentials":
        found = await asyncio.to_thread(read)
        return cls(clock, read, found, await asyncio.to_thread(found.context))

    async def current(self) -> SeedIdentity:
        """Returns the identity, read within the last minute."""
        if self._clock.now() - self._read_at > READ_AGAIN:
            await self.refresh()
        return self._identity

    async def refresh(self) -> None:
        """Reads the files again at once; keeps the former identity if that fails."""
        self._read_at = self._clock.now()  # set first: concurrent callers take the current identity
        before = self._identity
        try:
            found = await asyncio.to_thread(self._read)
            context = before.context
            if found.trust != self._contents.trust:
                context = await asyncio.to_thread(found.context)
        except ConfigurationError as error:
            log.warning("the seed's credentials cannot be read again", error=str(error))
            return
        token = before.token if found.token == "" else found.token
        self._contents, self._identity = found, SeedIdentity(found.origin, context, token)


def _service_account(origin: str, folder: Path) -> _Contents:
    try:
        token = (folder / "token").read_text(encoding="ascii").strip()
        ca = (folder / "ca.crt").read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text"
        raise _mistake(str(folder), "", f"the ServiceAccount cannot be read: {reason}") from error

    def context() -> ssl.SSLContext:
        try:
            return kubeconfig.client_context(ca)
        except CredentialRefused as error:
            raise _mistake(str(folder / "ca.crt"), "", "is not a CA bundle") from error

    return _Contents(origin, token, (ca,), context)


def _kubeconfig(path: Path) -> _Contents:
    """To be called in a thread: it reads files, and may run a credential plugin and wait for it."""
    loaded = asyncio.run(_load(path))
    for unsupported in ("tls_server_name", "proxy"):
        if getattr(loaded, unsupported, None):
            raise _mistake(str(path), unsupported.replace("_", "-"), "is not supported")
    origin = loaded.host.rstrip("/")
    bearer = loaded.api_key.get("BearerToken") or ""
    # kubernetes_asyncio writes certificates into files
    ca, certificate, key = loaded.ssl_ca_cert, loaded.cert_file, loaded.key_file

    def context() -> ssl.SSLContext:
        try:
            made = ssl.create_default_context(cafile=ca)
            made.minimum_version = ssl.TLSVersion.TLSv1_2
            if certificate:
                made.load_cert_chain(certificate, key, password=no_password)
        except (OSError, ValueError) as error:
            raise _mistake(str(path), "", "its certificates cannot be used") from error
        if not loaded.verify_ssl:  # the operator set insecure-skip-tls-verify in this file
            made.check_hostname = False
            made.verify_mode = ssl.CERT_NONE
        return made

    trust = (ca, certificate, key, loaded.verify_ssl, origin)
    return _Contents(origin, bearer.removeprefix("Bearer ").strip() or None, trust, context)


async def _load(path: Path) -> Any:  # noqa: ANN401 - kubernetes_asyncio has no types
    # imported lazily: it costs half a second and 78 MB, and is not needed in a cluster
    client = importlib.import_module("kubernetes_asyncio.client")
    config = importlib.import_module("kubernetes_asyncio.config")
    configuration = client.Configuration()
    try:
        await config.load_kube_config(
            config_file=str(path), client_configuration=configuration, persist_config=False
        )
    except Exception as error:  # it raises whatever goes wrong in a file or plugin
        known = isinstance(error, config.ConfigException) and str(error)
        message = (
            f"cannot be used: {error}" if known else f"is not a kubeconfig ({type(error).__name__})"
        )
        raise _mistake(str(path), "", message) from error
    return configuration


def _mistake(source: str, path: str, message: str) -> ConfigurationError:
    return ConfigurationError(source, [Mistake(None, path, message)])
