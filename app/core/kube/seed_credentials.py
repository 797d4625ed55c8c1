"""Our identity in the seed: the pod's ServiceAccount or an operator's kubeconfig, read again as they rotate."""

import asyncio
import importlib
import ssl
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
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


class _Rereading(ABC):
    """Keeps the last identity for when reading fails in the middle of a rotation."""

    def __init__(self, clock: Clock, first: SeedIdentity) -> None:
        self._clock, self._identity = clock, first
        self._read_at = clock.now()

    async def current(self) -> SeedIdentity:
        """Returns the identity, read within the last minute."""
        if self._clock.now() - self._read_at > READ_AGAIN:
            await self.refresh()
        return self._identity

    async def refresh(self) -> None:
        """Reads the files again at once; keeps the former identity if that fails."""
        self._read_at = self._clock.now()  # set first: concurrent callers take the current identity
        try:
            self._identity = await self._read(self._identity)
        except ConfigurationError as error:
            log.warning("the seed's credentials cannot be read again", error=str(error))

    @abstractmethod
    async def _read(self, before: SeedIdentity) -> SeedIdentity:
        """Reads the identity; `before` is the former one."""


class InClusterCredentials(_Rereading):
    """The ServiceAccount that is mounted into the pod."""

    def __init__(
        self, clock: Clock, folder: Path, files: "_MountedFiles", first: SeedIdentity
    ) -> None:
        super().__init__(clock, first)
        self._folder, self._files = folder, files

    @classmethod
    async def load(
        cls, clock: Clock, environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT
    ) -> "InClusterCredentials":
        """Reads it for the first time.

        Raises:
            ConfigurationError: we are not in a cluster, or its files cannot be read.
        """
        host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
        if not host or not port:
            raise _mistake(
                "environment", "KUBERNETES_SERVICE_HOST", "is not set, and there is no --kubeconfig"
            )
        origin = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        files = await asyncio.to_thread(_MountedFiles.read, folder)
        if not files.token:
            raise _mistake(str(folder / "token"), "", "is empty")
        return cls(clock, folder, files, SeedIdentity(origin, files.context(), files.token))

    async def _read(self, before: SeedIdentity) -> SeedIdentity:
        files = await asyncio.to_thread(_MountedFiles.read, self._folder)
        # the file may be empty for a moment while it is renewed
        token = files.token or before.token
        context = before.context if files.ca == self._files.ca else files.context()
        self._files = files
        return SeedIdentity(before.origin, context, token)


@dataclass(frozen=True, slots=True)
class _MountedFiles:
    """The contents of the mounted files."""

    folder: Path
    token: str
    ca: str

    def __repr__(self) -> str:
        return "_Files(…)"

    @classmethod
    def read(cls, folder: Path) -> "_MountedFiles":
        try:
            token = (folder / "token").read_text(encoding="ascii").strip()
            return cls(folder, token, (folder / "ca.crt").read_text(encoding="ascii"))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not text"
            raise _mistake(
                str(folder), "", f"the ServiceAccount cannot be read: {reason}"
            ) from error

    def context(self) -> ssl.SSLContext:
        try:
            return kubeconfig.client_context(self.ca)
        except CredentialRefused as error:
            raise _mistake(str(self.folder / "ca.crt"), "", "is not a CA bundle") from error


class KubeconfigCredentials(_Rereading):
    """A kubeconfig of the operator; it is trusted, so kubernetes_asyncio may do with it whatever kubectl would."""

    def __init__(
        self, clock: Clock, path: Path, settings: "_Settings", first: SeedIdentity
    ) -> None:
        super().__init__(clock, first)
        self._path, self._settings = path, settings

    @classmethod
    async def load(cls, clock: Clock, path: Path) -> "KubeconfigCredentials":
        """Reads it for the first time.

        Raises:
            ConfigurationError: it cannot be read, or uses what we do not support.
        """
        settings = await asyncio.to_thread(_Settings.read, path)
        first = SeedIdentity(settings.origin, settings.context(), settings.token)
        return cls(clock, path, settings, first)

    async def _read(self, before: SeedIdentity) -> SeedIdentity:
        settings = await asyncio.to_thread(_Settings.read, self._path)
        same = settings.same_server(self._settings)
        context = before.context if same else await asyncio.to_thread(settings.context)
        self._settings = settings
        return SeedIdentity(settings.origin, context, settings.token)


@dataclass(frozen=True, slots=True)
class _Settings:
    """The configuration that kubernetes_asyncio loads from a kubeconfig; certificates are files that it writes."""

    path: Path
    origin: str
    token: str | None
    ca_file: str | None
    cert_file: str | None
    key_file: str | None
    verify: bool

    def __repr__(self) -> str:
        return f"_Settings({self.origin})"

    def same_server(self, other: "_Settings") -> bool:
        return (self.ca_file, self.cert_file, self.key_file, self.verify, self.origin) == (
            other.ca_file,
            other.cert_file,
            other.key_file,
            other.verify,
            other.origin,
        )

    @classmethod
    def read(cls, path: Path) -> "_Settings":
        """To be called in a thread: it reads files, and may run a credential plugin and wait for it."""
        configuration = asyncio.run(_load(path))
        for unsupported in ("tls_server_name", "proxy"):
            if getattr(configuration, unsupported, None):
                raise _mistake(str(path), unsupported.replace("_", "-"), "is not supported")
        bearer = configuration.api_key.get("BearerToken") or ""
        return cls(
            path,
            configuration.host.rstrip("/"),
            bearer.removeprefix("Bearer ").strip() or None,
            configuration.ssl_ca_cert,
            configuration.cert_file,
            configuration.key_file,
            configuration.verify_ssl,
        )

    def context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file, password=no_password)
        except (OSError, ValueError) as error:
            raise _mistake(str(self.path), "", "its certificates cannot be used") from error
        if not self.verify:  # the operator set insecure-skip-tls-verify in this file
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


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
