"""Our identity in the seed, and the requests to its API server: with current credentials, within budgets (rules 4.3).

The identity is the pod's ServiceAccount or an operator's kubeconfig, read again as they rotate. Budgets keep one kind
of request from delaying another: what a scale-down needs overtakes everything, and reads for the API use only what is
left.
"""

import asyncio
import contextlib
import importlib
import ssl
import sys
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec
import structlog
from yaml import MarkedYAMLError

from app.core.bounded_tls import BoundedContext
from app.core.clock import Clock
from app.core.errors import (
    ConfigurationError,
    CredentialRefused,
    Forbidden,
    Invalid,
    Mistake,
    NotFound,
    Throttled,
    Unauthorized,
)
from app.core.fair_queue import TokenQueue
from app.core.kube import kubeconfig
from app.core.kube.client import ApiClient, ApiRequest, Decode, Reply, ResponseLimits
from app.core.kube.connections import ConnectionPool, Network, RequestedRight, error_of_exception
from app.core.kube.nesting import shallow
from app.core.metrics import Metrics
from app.core.ports import Starting
from app.core.tasks import in_daemon_thread, wait_until_set
from app.core.tls import load_chain

log = structlog.get_logger(__name__)

T = TypeVar("T")

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
READ_AGAIN: Final = 60.0
"""Seconds after which the files are read again: the kubelet renews a token minutes before it expires."""

# Seconds for which a request waits for that: a credential plugin may hang.
_READ_WITHIN: Final = 3.0


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
    """Empty if its file is, as may be for a moment while it is renewed; None with a client certificate instead."""
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
        self._identity = SeedIdentity(first.origin, context, first.token or None)
        self._read_at = clock.now()
        self._reading: asyncio.Future[None] | None = None

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
            unset = "is not set, and there is no --kubeconfig"
            raise _unusable("environment", unset, "KUBERNETES_SERVICE_HOST")
        origin = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        made = await cls._first(clock, partial(_service_account, origin, folder))
        if not (await made.current()).token:
            raise _unusable(folder / "token", "is empty")
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
        found = await in_daemon_thread(read)
        return cls(clock, read, found, await in_daemon_thread(found.context))

    async def current(self) -> SeedIdentity:
        """Returns the identity, read within the last minute unless reading takes too long."""
        if self._clock.now() - self._read_at > READ_AGAIN:
            await self.refresh()
        return self._identity

    async def refresh(self) -> None:
        """Reads the files again at once; keeps the former identity if that fails, or until it is done."""
        self._read_at = self._clock.now()  # set first: concurrent callers take the current identity
        if self._reading is None or self._reading.done():
            # A task of its own: a caller that is cancelled, or waits no longer, does not lose what is read. One at a
            # time: a credential plugin may hang, each time in another thread.
            self._reading = asyncio.ensure_future(self._read_again())
        reading = self._reading
        await asyncio.wait((reading,), timeout=_READ_WITHIN)
        if reading.done():
            reading.result()
        else:
            text = f"not read after {_READ_WITHIN:g} s"
            log.warning("the seed's credentials cannot be read again", error=text)

    async def _read_again(self) -> None:
        before = self._identity
        try:
            found = await in_daemon_thread(self._read)
            context = before.context
            if found.trust != self._contents.trust:
                context = await in_daemon_thread(found.context)
        except (ConfigurationError, OSError) as error:
            log.warning("the seed's credentials cannot be read again", error=str(error))
            return
        token = before.token if found.token == "" else found.token
        self._contents, self._identity = found, SeedIdentity(found.origin, context, token)


def _service_account(origin: str, folder: Path) -> _Contents:
    try:
        token = (folder / "token").read_text(encoding="ascii").strip()
        bundle = (folder / "ca.crt").read_bytes()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise _unusable(folder, f"the ServiceAccount cannot be read: {reason}") from error
    if token and not kubeconfig.is_token(token):
        raise _unusable(folder / "token", "is not a token")

    def context() -> ssl.SSLContext:
        try:
            return kubeconfig.client_context(kubeconfig.certificates(bundle))
        except CredentialRefused as error:
            raise _unusable(folder / "ca.crt", "is not a CA bundle") from error

    return _Contents(origin, token, (bundle,), context)


_FILES: Final = ("certificate-authority", "client-certificate", "client-key")
"""What a kubeconfig names as a file, or holds itself with `-data`."""
_TOLD: Final = ("server", "insecure-skip-tls-verify", "certificate-authority-data")
"""What a credential plugin is told of its cluster, under the same names; the last one also where it is in a file."""
_FOR_PLUGINS: Final = "client.authentication.k8s.io/exec"
"""The extension of a cluster that plugins are told as well."""
_UNSUPPORTED: Final = (
    *("tls-server-name", "proxy-url"),
    *("as", "as-uid", "as-groups", "as-user-extra", "username", "password"),
)


def _kubeconfig(path: Path) -> _Contents:
    """To be called in a thread: it reads files, and may run a credential plugin and wait for it."""
    loaded, held = asyncio.run(_load(path))
    bearer = loaded.api_key.get("BearerToken") or ""
    # Kept by content: a file that the kubeconfig names rotates under the same name.
    files = (loaded.ssl_ca_cert, loaded.cert_file, loaded.key_file)
    try:
        ca, certificate, private_key = (
            held.get(name) or (file and Path(file).read_bytes())
            for name, file in zip(_FILES, files, strict=True)
        )
    except OSError as error:
        raise _unusable(path, f"names a file that cannot be read: {error.strerror}") from error
    if ca == b"":  # it is being written; with no authority at all the system's would be trusted
        raise _unusable(path, "the file of its certificate authority is empty")
    token = bearer.removeprefix("Bearer ").strip()
    if token and not kubeconfig.is_token(token):
        raise _unusable(path, "its token is not a token")

    def context() -> ssl.SSLContext:
        try:
            made = BoundedContext()
            if ca:
                made.load_verify_locations(cadata=kubeconfig.certificates(ca))
            else:
                made.load_default_certs()
            if certificate:
                load_chain(made, certificate + b"\n" + (private_key or b""))
        except (OSError, ValueError, CredentialRefused) as error:
            raise _unusable(path, "its certificates cannot be used") from error
        if not loaded.verify_ssl:  # the operator set insecure-skip-tls-verify in this file
            made.check_hostname = False
            made.verify_mode = ssl.CERT_NONE
        return made

    trust = (ca, certificate, private_key, loaded.verify_ssl, loaded.host)
    return _Contents(loaded.host, None if certificate and not token else token, trust, context)


async def _load(path: Path) -> tuple[Any, dict[str, bytes]]:
    """What kubernetes_asyncio, which has no types, makes of a kubeconfig; and what that holds of `_FILES`.

    The library would write the latter into files that it never closes, a private key among them.
    """
    # imported lazily: it costs half a second and 78 MB, and is not needed in a cluster
    client = importlib.import_module("kubernetes_asyncio.client")
    config = importlib.import_module("kubernetes_asyncio.config")
    kube_config = importlib.import_module("kubernetes_asyncio.config.kube_config")
    configuration = client.Configuration()
    held: dict[str, bytes] = {}
    try:
        merged = kube_config.KubeConfigMerger(str(path)).config
        loader = kube_config.KubeConfigLoader(merged, config_base_path=None)
        chosen = loader.current_context["context"]
        cluster = merged["clusters"].get_with_name(chosen["cluster"])["cluster"].value
        user = {}
        if name := chosen.get("user"):
            user = merged["users"].get_with_name(name)["user"].value
        _check_supported(path, {**cluster, **user})
        if plugin := user.pop("exec", None):
            _take_over(user, await _plugin(kube_config, path, plugin, cluster).run())
        elif user.get("tokenFile"):
            user.pop("token", None)  # kubectl, too, prefers the file
        for name in _FILES:
            if data := (cluster if name == _FILES[0] else user).pop(f"{name}-data", None):
                held[name] = b64decode(data)
        await loader.load_and_set(configuration)
    except ConfigurationError:
        raise
    except Exception as error:  # it raises whatever goes wrong in a file or plugin
        known = isinstance(error, config.ConfigException)
        raise _unusable(path, _why_unusable(path, error, known=known)) from error
    if not _is_url(configuration.host):
        raise _unusable(path, "is not a URL", "server")
    return configuration, held


def _check_supported(path: Path, settings: Mapping[str, Any]) -> None:
    """Raises ConfigurationError for what would change whom we ask, and as whom, and is not looked at here."""
    for key in _UNSUPPORTED:
        if settings.get(key):
            raise _unusable(path, "is not supported", key)


def _plugin(
    library: Any,  # noqa: ANN401 - it has no types
    path: Path,
    plugin: dict[str, Any],
    cluster: Mapping[str, Any],
) -> Any:  # noqa: ANN401
    """Returns what runs a credential plugin as kubectl does.

    The library looks for it in the working directory instead of the kubeconfig's, and tells it nothing of the cluster,
    without which gardenlogin ends with a panic.
    """
    if "/" in str(plugin.get("command")):
        plugin["command"] = str(path.absolute().parent / plugin["command"])
    provider = library.ExecProvider(library.ConfigNode("exec", plugin))
    if plugin.get("provideClusterInfo"):
        told = {name: cluster[name] for name in _TOLD if name in cluster}
        if (file := cluster.get("certificate-authority")) and _TOLD[-1] not in told:
            told[_TOLD[-1]] = b64encode((path.parent / file).read_bytes()).decode()
        for each in cluster.get("extensions") or ():
            if each["name"] == _FOR_PLUGINS:
                told["config"] = each["extension"]
        spec = {"interactive": sys.stdin.isatty(), "cluster": told}
        info = {"apiVersion": provider.api_version, "kind": "ExecCredential", "spec": spec}
        # the library sets this variable itself, so it is set anew in between
        provider.args[:0] = ["env", f"KUBERNETES_EXEC_INFO={msgspec.json.encode(info).decode()}"]
    return provider


def _take_over(user: dict[str, Any], status: Mapping[str, str]) -> None:
    """Puts what a credential plugin has said in the place of what a kubeconfig says of its user."""
    user.clear()
    if "token" in status:
        user["token"] = status["token"]
    for name, key in (
        ("client-certificate", "clientCertificateData"),
        ("client-key", "clientKeyData"),
    ):
        if key in status:
            user[f"{name}-data"] = b64encode(status[key].encode())


def _is_url(server: str) -> bool:
    with contextlib.suppress(ValueError):
        parts = urlsplit(server)
        return bool(
            parts.scheme in {"http", "https"}
            and parts.hostname
            and parts.port != 0
            and not parts.username
        )
    return False


def _why_unusable(path: Path, error: Exception, *, known: bool) -> str:
    """Says what is wrong with a kubeconfig; `known`: the library itself says so in the error."""
    try:
        content = path.read_bytes()  # to the library, a file that is not there is an empty one
    except OSError as unread:
        return f"cannot be read: {unread.strerror}"
    if not content.strip():
        return "is empty"
    if isinstance(error, MarkedYAMLError) and error.problem_mark is not None:
        return f"is not well-formed YAML (line {error.problem_mark.line + 1})"
    if known:
        return f"cannot be used: {error}"
    return f"is not a kubeconfig ({type(error).__name__})"


def _unusable(source: Path | str, why: str, key: str = "") -> ConfigurationError:
    return ConfigurationError(str(source), [Mistake(None, key, why)])


# Requests, and the budgets that they are charged to.


WITHIN: Final = 10.0
"""Time limit of a request in seconds."""
URGENT_WITHIN: Final = 5.0
"""Time limit of a request that a scale-down waits for, in seconds."""
PATIENT_WITHIN: Final = 12.0
"""Time limit in seconds of a scaling write that is sent again: kube-apiserver waits 10 s for a webhook that does not
answer, even one whose failure it ignores, and drops the write if the client has gone meanwhile."""
URGENT_IN_FLIGHT: Final = 50
MOST_SKEW: Final = 5.0
_SKEW_REPORTED_EVERY: Final = 3600.0
# Maximum seconds for which an Event waits for the requests of scale-downs to end. An outage of 300 shoots keeps the
# event loop busy for a second; sending Events at the same time made the first writes three times as late.
_GIVES_WAY: Final = 1.0
# A 403 with these words is not a missing right: the namespace is being deleted. The reason follows the name of the
# namespace, where a long message is cut off.
_TERMINATING: Final = "unable to create new content in namespace"
# With these words admission denies one object: a webhook, and a ValidatingAdmissionPolicy.
_DENIED: Final = ("denied the request", "denied request")
# Of a request to create, RBAC names the user and no object; what names one is of admission.
_NAMES_OBJECT: Final = '" is forbidden: '
_LIMITS: Final = ResponseLimits(first_byte_reused=4.0, first_byte_new=PATIENT_WITHIN)


class Budget(StrEnum):
    """The budget that a request is charged to."""

    NORMAL = "normal"
    """`--kube-api-qps` and `--kube-api-burst`."""
    URGENT = "urgent"
    """`--scale-down-qps`, at most 50 in flight: what a scale-down needs."""
    SPARE = "spare"
    """What others leave of the normal budget, and only the upper half of its burst; if that is used up, nothing is
    sent."""
    LEASE = "lease"
    """No limit: renewing our own Lease goes before everything."""
    PACED = "paced"
    """No limit here: the caller has a budget of its own (the weeder, Events, exec probes, and reviews,
    `app.api.auth.reviews`)."""

    @classmethod
    def of(cls, *, urgent: bool, spare: bool = False) -> "Budget":
        """Returns the budget of a request that is `urgent`, or else `spare`, or neither."""
        return cls.URGENT if urgent else cls.SPARE if spare else cls.NORMAL

    @property
    def within(self) -> float:
        """The time limit of a request, in seconds."""
        return URGENT_WITHIN if self is Budget.URGENT else WITHIN


class _Deep(bytes):
    """An answer that is nested too deeply to be decoded directly."""


class SeedApi:
    """The client of the seed's API server."""

    def __init__(
        self,
        credentials: SeedCredentials,
        clock: Clock,
        metrics: Metrics,
        *,
        qps: float = 5.0,
        burst: int = 10,
        scale_down_qps: float = 200.0,
        network: Network | None = None,
    ) -> None:
        """Opens no connection yet; needs a running event loop.

        Args:
            credentials: our identity.
            clock: timestamps requests.
            metrics: counts requests.
            qps: rate of requests, other than those of scale-downs and the Lease.
            burst: burst of these requests.
            scale_down_qps: rate of requests of scale-downs.
            network: makes the connections; None: that of the machine.
        """
        self._credentials, self.clock, self.metrics = credentials, clock, metrics
        self._pool = ConnectionPool("seed", clock, metrics, network=network)
        self._open: tuple[SeedIdentity, ApiClient] | None = None
        self._normal = TokenQueue(qps, burst, clock)
        # `SPARE` requests, which may be refused, never use the lower half of the burst: after a mass outage the writes
        # that bring controllers back would otherwise wait behind them.
        self._reserve = max(burst / 2, 1.0)
        self._urgent = TokenQueue(scale_down_qps, URGENT_IN_FLIGHT, clock)
        self._in_flight = asyncio.Semaphore(URGENT_IN_FLIGHT)
        self._urgent_ones = 0
        """Urgent requests that wait for the budget or are in flight."""
        self._calm = asyncio.Event()
        """Set while there are no urgent requests."""
        self._calm.set()
        self.answered_at: float | None = None
        """When the seed first answered a request with what was asked for; None before."""
        self.restored_at = float("-inf")
        """When its storage was last found to be restored from an older state (`restored`)."""
        self.clock_skew: float | None = None
        """The clock by which we decide minus the seed's, in seconds; None before the first answer."""
        self._skew_reported = float("-inf")

    @property
    def server_time(self) -> float | None:
        """The API server's clock to half a second, derived from its last answer; None before the first answer."""
        return None if self.clock_skew is None else self.clock.now() - self.clock_skew

    def restored(self) -> None:
        """Called when resourceVersions have gone back: what was listed before says nothing any more."""
        self.restored_at = self.clock.now()

    async def call(
        self,
        request: ApiRequest,
        decode: Decode[T],
        budget: Budget = Budget.NORMAL,
        *,
        new_connection: bool = False,
        starting: Starting | None = None,
    ) -> T:
        """Sends the request and decodes the answer; what is nested too deeply for `decode` is cut out.

        After a 401 the credentials are read again. If they have changed, the request, which was not executed, is sent
        once more.

        Args:
            request: what to ask.
            decode: turns the body into the value.
            budget: what the request is charged to.
            new_connection: use a connection of its own, closed afterwards.
            starting: called after the budget has admitted the request, and before it is repeated; its exceptions
                propagate.

        Raises:
            Throttled: the seed answered 429, or a `SPARE` request found nothing left.
            ClusterError: the request failed, or the answer was not what was asked for.
        """

        def read(raw: bytes | bytearray) -> T | _Deep:
            try:
                return decode(raw)
            except RecursionError:
                return _Deep(raw)

        async def attempt(client: ApiClient, token: str | None) -> Reply[T | _Deep]:
            if starting is not None:
                starting()
            return await client.call(request, read, token, new_connection=new_connection)

        async with self._admitted(budget):
            reply = await self._with_credentials(attempt)
        if self.answered_at is None:
            self.answered_at = self.clock.now()
        self._compare_clocks(reply)
        if not isinstance(reply.value, _Deep):
            return reply.value
        try:
            return decode(await shallow(reply.value, self.clock))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise error_of_exception(request.asked, error) from error

    async def _with_credentials(
        self, attempt: Callable[[ApiClient, str | None], Awaitable[T]]
    ) -> T:
        """Makes an attempt; after a 401 once more, if the credentials have changed when they are read again."""
        identity = await self._credentials.current()
        try:
            return await attempt(self._client(identity), identity.token)
        except Unauthorized:
            await self._credentials.refresh()
            refused, identity = identity, await self._credentials.current()
            if (identity.token, identity.context) == (refused.token, refused.context):
                raise
        return await attempt(self._client(identity), identity.token)

    @asynccontextmanager
    async def watch(
        self, request: ApiRequest, *, silence: float, budget: Budget = Budget.NORMAL
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Opens a watch and yields its lines as they arrive; only opening it is charged to the budget.

        Raises:
            ClusterError: the watch could not be opened or broke, or nothing came for `silence` seconds.
        """
        async with self._admitted(budget):
            pass
        async with AsyncExitStack() as stack:
            yield await self._with_credentials(
                lambda client, token: stack.enter_async_context(
                    client.watch(request, token, silence=silence)
                )
            )

    @asynccontextmanager
    async def socket(
        self, request: ApiRequest, protocols: tuple[str, ...]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Opens a WebSocket that speaks one of `protocols`; the caller has a budget of its own.

        Raises:
            ClusterError: the server did not open it.
        """
        async with AsyncExitStack() as stack:
            yield await self._with_credentials(
                lambda client, token: stack.enter_async_context(
                    client.socket(request, token, protocols)
                )
            )

    async def create_event(self, namespace: str, event: dict[str, object]) -> None:
        """Creates `event`, an `events.k8s.io/v1` object, at the caller's rate; scale-downs go first.

        Raises:
            Throttled: the seed asks for a pause.
            Forbidden: the right is missing.
            NotFound: the namespace is being deleted, or gone.
            Invalid: the seed does not admit this Event.
            ClusterError: the Event was not created.
        """
        asked = RequestedRight("create", "events", namespace)
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        _ = await wait_until_set(self._calm, _GIVES_WAY)
        request = ApiRequest(asked, path, WITHIN, method="POST", body=event)
        try:
            await self.call(request, lambda _: None, Budget.PACED)
        except Forbidden as refusal:
            if _TERMINATING in str(refusal):
                raise NotFound(str(refusal), status=refusal.status) from refusal
            if _NAMES_OBJECT in str(refusal) or denied_by_admission(refusal):
                raise Invalid(str(refusal), status=refusal.status) from refusal
            raise

    async def close(self) -> None:
        """Closes all connections to the seed."""
        await self._pool.close()

    @asynccontextmanager
    async def _admitted(self, budget: Budget) -> AsyncIterator[None]:
        """Waits until the budget admits a request, which is in flight until the context ends."""
        match budget:
            case Budget.URGENT:
                self._urgent_ones += 1
                self._calm.clear()
                try:
                    async with self._in_flight:
                        await self._urgent.take()
                        yield
                finally:
                    self._urgent_ones -= 1
                    if not self._urgent_ones:
                        self._calm.set()
            case Budget.SPARE if not self._normal.holds(self._reserve):
                raise Throttled("not sent: the request budget for the seed is used up")
            case Budget.NORMAL | Budget.SPARE:
                await self._normal.take()
                yield
            case Budget.LEASE | Budget.PACED:
                yield

    def _client(self, identity: SeedIdentity) -> ApiClient:
        if self._open is not None:
            before, client = self._open
            if before.context is identity.context and before.origin == identity.origin:
                return client
            client.close()  # made with a CA or certificate that has been replaced
        client = ApiClient(
            self._pool, identity.origin, identity.context, limits=_LIMITS, trusted=True
        )
        self._open = (identity, client)
        return client

    def _compare_clocks(self, reply: Reply[T]) -> None:
        if reply.date is None:
            return
        # the header is in whole seconds, so on average it is half a second old
        self.clock_skew = self.clock.now() - (reply.date + 0.5)
        self.metrics.clock_skew.set(self.clock_skew)
        now = self.clock.now()
        if abs(self.clock_skew) > MOST_SKEW and now - self._skew_reported > _SKEW_REPORTED_EVERY:
            self._skew_reported = now
            log.warning("our clock and the seed's differ", seconds=round(self.clock_skew, 1))


def denied_by_admission(refusal: Forbidden) -> bool:
    """Whether a 403 is about one object, and not a missing right."""
    return any(each in str(refusal) for each in _DENIED)


async def or_none(read: Awaitable[T]) -> T | None:
    """Returns what `read` returns; None if it does not exist."""
    try:
        return await read
    except NotFound:
        return None
