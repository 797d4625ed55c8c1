"""`--service-account`: short-lived tokens of a ServiceAccount, which the operator mints with their own kubeconfig.

People log in to a seed by a client certificate or through a login plugin, and neither can be shown to the API of the
watchdog. So the operator's own credentials make a token of a ServiceAccount by a TokenRequest, for the audience of the
API alone and for an hour, and make the next one before it ends. The kubeconfig is read as kubectl reads it, by
kubernetes_asyncio; a login plugin is run here instead, as kubectl runs it: with the cluster's address, if it asks for
that, and with the terminal to ask questions on. Without the flag nothing of this is loaded, and no plugin is run
(threat T1 is about kubeconfigs of others).

The account says nothing of the person. So the seed is asked, with the operator's own credentials, by what name it knows
them (SelfSubjectReview), and that name goes along with each request. It is a claim: the watchdog shows it beside the
account in the audit, and trusts it in nothing.
"""

import asyncio
import base64
import contextlib
import importlib
import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

import aiohttp
from multidict import CIMultiDict

from app.cli.problems import CommandFailed, Exit, NoAnswer
from app.cli.tokens import TokenSource
from app.cli.transports import tied_to
from app.core.clock import Clock
from app.core.config.client_settings import ClientSettings
from app.core.config.flags import ENV_PREFIX
from app.core.config.values import NamespacedName
from app.core.errors import ConfigurationError, Mistake, trimmed
from app.core.model.callers import AUDIENCE, CLAIMED_USER

T = TypeVar("T")

LIFETIME: Final = 3_600
"""Seconds that a token is asked for. A stream of events ends with the token that it was opened with."""
_RENEWED_AT: Final = 0.75
"""The part of a token's life after which the next one is made."""
_TRIED_AGAIN: Final = 10.0
"""Seconds between attempts to renew a token that still is good."""
_MAX_ANSWER: Final = 1 << 20
_PLUGIN: Final = "client.authentication.k8s.io/exec"
"""The extension of a cluster that holds settings for login plugins."""
_FLAG: Final = "--service-account"


def minted_tokens(
    account: NamespacedName, settings: ClientSettings, environ: Mapping[str, str], clock: Clock
) -> "MintedTokens":
    """Tokens of `account`, made with the kubeconfig that kubectl would use.

    Raises:
        ConfigurationError: There is no kubeconfig, or it cannot be used.
    """
    operator = SeedKubeconfig(_files(settings.kubeconfig, environ), settings.context, environ)
    operator.load()
    return MintedTokens(account, operator, clock, settings.timeout)


def _files(chosen: Path | None, environ: Mapping[str, str]) -> str:
    """The kubeconfig files, separated as in KUBECONFIG.

    Raises:
        ConfigurationError: None of them exists.
    """
    home = environ.get("HOME")
    usual = "" if home is None else str(Path(home) / ".kube" / "config")
    found = environ.get("KUBECONFIG") or usual if chosen is None else str(chosen)
    # Unlike those of Path, these never raise: not for a name that is too long, nor for an unknown user's home.
    paths = (os.path.expanduser(each) for each in found.split(os.pathsep) if each)  # noqa: PTH111
    if not any(os.path.isfile(each) for each in paths):  # noqa: PTH113
        where = f": {trimmed(found)} is no file" if found else ""
        message = f"needs your kubeconfig of the seed (--kubeconfig, KUBECONFIG){where}"
        raise ConfigurationError("dwd", [Mistake(None, _FLAG, message)])
    return found


# The source of tokens.


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
        operator: The operator's access to the seed.
        clock: Tells how old a token is.
        timeout: Seconds for one answer of the seed.
    """

    def __init__(
        self, account: NamespacedName, operator: "SeedKubeconfig", clock: Clock, timeout: float
    ) -> None:
        self._account, self._operator = account, operator
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
        async with await self._operator.connect(self._timeout) as seed:
            if self._person is None:
                self._person = await seed.person()
            made = await seed.token(self._account, self._person)
        self._made_at = self._clock.now()
        (token, lives), at = made, self._made_at
        return _Minted(token, at + lives * _RENEWED_AT, at + lives)


# The operator's kubeconfig. kubernetes_asyncio has no types.


@dataclass(frozen=True, slots=True)
class _Kubeconfig:
    """The merged files, as kubernetes_asyncio has read them."""

    merged: Any
    context: str
    user: dict[str, Any]
    cluster: dict[str, Any]
    cluster_folder: Path
    user_folder: Path


@dataclass(frozen=True, slots=True, repr=False)
class SeedKubeconfig:
    """The operator's own access to the seed: the kubeconfig, read anew for each token."""

    files: str
    """The kubeconfig files, separated as in KUBECONFIG."""
    context: str | None
    """The context; None: the current one."""
    environ: Mapping[str, str]
    """The environment of login plugins."""

    def load(self) -> _Kubeconfig:
        """Read the files; blocks.

        Raises:
            ConfigurationError: They are no kubeconfig, or lack the context.
        """
        # Imported here: it takes half a second, which every other command would lose.
        kube_config = importlib.import_module("kubernetes_asyncio.config.kube_config")
        try:
            merger = kube_config.KubeConfigMerger(self.files)
            named = (each.get("current-context") for each in merger.config_files.values())
            # Of several files the first that names a context counts, as for kubectl.
            context = self.context or next(filter(None, named), None)
            found = None if context is None else self._chosen(merger.config, context)
        except Exception as error:  # it raises whatever goes wrong in a file
            raise self._unusable(error) from error
        if found is None:
            raise self._wrong("has no current context; say which by --context")
        return found

    @staticmethod
    def _chosen(merged: Any, context: str) -> _Kubeconfig:  # noqa: ANN401 - see above
        chosen = merged["contexts"].get_with_name(context)["context"]
        cluster = merged["clusters"].get_with_name(chosen["cluster"])["cluster"]
        name = chosen.safe_get("user")
        user = merged["users"].get_with_name(name)["user"] if name else None
        return _Kubeconfig(
            merged,
            context,
            {} if user is None else user.value,
            cluster.value,
            Path(cluster.path).parent,
            Path(cluster.path if user is None else user.path).parent,
        )

    async def connect(self, timeout: float) -> "_Seed":
        """Log in: run the login plugin, if the user has one, and load certificates and token.

        Raises:
            CommandFailed: The plugin fails.
            ConfigurationError: The kubeconfig cannot be used.
        """
        found = await asyncio.to_thread(self.load)
        if isinstance(plugin := found.user.pop("exec", None), dict):
            found.user.update(await _logged_in(plugin, found, self.environ))
        elif found.user.get("tokenFile"):
            found.user.pop("token", None)  # kubectl, too, prefers the file
        kube_config = importlib.import_module("kubernetes_asyncio.config.kube_config")
        client = importlib.import_module("kubernetes_asyncio.client")
        configuration = client.Configuration()
        try:
            loader = kube_config.KubeConfigLoader(
                found.merged, active_context=found.context, config_base_path=None
            )
            await loader.load_and_set(configuration)
            rest = client.ApiClient(configuration)
        except Exception as error:  # as above; an old auth-provider may even fail to log in
            raise self._unusable(error) from error
        return _Seed(rest, configuration, _impersonated(found.user), timeout)

    def _unusable(self, error: Exception) -> ConfigurationError:
        known = type(error).__name__ == "ConfigException" or isinstance(error, OSError)
        said = str(error) if known and str(error) else type(error).__name__
        return self._wrong(f"is no kubeconfig that can be used: {trimmed(said)}")

    def _wrong(self, message: str) -> ConfigurationError:
        return ConfigurationError(trimmed(self.files), [Mistake(None, _FLAG, message)])


def _impersonated(user: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The headers by which the user of a kubeconfig acts as somebody else (`as`, `as-groups` …)."""
    found = [(f"Impersonate-{kind}", user.get(name)) for kind, name in _ACTS_AS]
    found += [("Impersonate-Group", each) for each in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        found += [(f"Impersonate-Extra-{quote(str(key), safe='')}", each) for each in values]
    return [(name, str(value)) for name, value in found if value]


_ACTS_AS: Final = (("User", "as"), ("Uid", "as-uid"))


# Login plugins (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins).


async def _logged_in(
    plugin: Mapping[str, Any], found: _Kubeconfig, environ: Mapping[str, str]
) -> dict[str, str]:
    """Run a login plugin; returns the credentials in the words of a kubeconfig.

    Raises:
        CommandFailed: It cannot be started, fails, or returns no credentials.
    """
    command, version = str(plugin.get("command") or ""), str(plugin.get("apiVersion") or "")
    name = trimmed(command, 100)
    # From PATH, or relative to the kubeconfig that names it.
    if os.sep in command:
        program = shutil.which(found.user_folder / command)
    else:
        program = shutil.which(command, path=environ.get("PATH")) if command else None
    if program is None:
        hint = plugin.get("installHint")
        raise CommandFailed(
            Exit.FAILED,
            f"the login plugin {name} of your kubeconfig is not there",
            [str(hint)] if hint else (),
        )
    asks = plugin.get("interactiveMode", "IfAvailable") != "Never" and sys.stdin is not None
    interactive = asks and sys.stdin.isatty()
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = await asyncio.to_thread(_cluster_info, found)
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    given = {str(each["name"]): str(each["value"]) for each in plugin.get("env") or ()}
    inherited = {k: v for k, v in environ.items() if not k.startswith(ENV_PREFIX)}
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *(str(each) for each in plugin.get("args") or ()),
            env={**inherited, **given, "KUBERNETES_EXEC_INFO": json.dumps(info)},
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,  # what it has to say to people is on standard error, which is ours
            preexec_fn=tied_to(os.getpid()),
        )
    except OSError as error:
        message = f"the login plugin {name} cannot be started: {error.strerror}"
        raise CommandFailed(Exit.FAILED, message) from error
    said = await _output(process)
    if process.returncode:
        message = f"the login plugin {name} failed with exit code {process.returncode}"
        raise CommandFailed(Exit.FAILED, message)
    return _credentials(said, version, name)


async def _output(process: asyncio.subprocess.Process) -> bytes:
    """All that the plugin writes, until it has ended; it is ended with us."""
    assert process.stdout is not None  # noqa: S101 - it was asked for
    try:
        said = await _beginning(process.stdout)
        await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return said


async def _beginning(stream: asyncio.StreamReader | aiohttp.StreamReader) -> bytes:
    """The beginning of a stream, which is read to its end; more than `_MAX_ANSWER` is none of what we ask for."""
    said = b""
    while more := await stream.read(_MAX_ANSWER):
        said = (said + more)[:_MAX_ANSWER]
    return said


def _credentials(said: bytes, version: str, name: str) -> dict[str, str]:
    try:
        found = json.loads(said)
        status = found["status"]
        token, certificate = status.get("token"), status.get("clientCertificateData")
        key = status.get("clientKeyData")
        if found["apiVersion"] == version and (token or (certificate and key)):
            pair = {"client-certificate-data": certificate, "client-key-data": key}
            encoded = {
                each: base64.b64encode(text.encode()).decode() for each, text in pair.items() if key
            }
            return encoded | ({"token": str(token)} if token else {})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass  # reported below
    message = f"the login plugin {name} returned no credentials ({version or 'no apiVersion'})"
    raise CommandFailed(Exit.FAILED, message)


def _cluster_info(found: _Kubeconfig) -> dict[str, Any]:
    """What a plugin with `provideClusterInfo` is told of the cluster; blocks."""
    given = found.cluster
    info = {
        name: given[name]
        for name in ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
        if given.get(name)
    }
    data = given.get("certificate-authority-data")
    if not data and (file := given.get("certificate-authority")):
        with contextlib.suppress(OSError):  # kubernetes_asyncio reports it
            data = base64.b64encode((found.cluster_folder / file).read_bytes()).decode()
    if data:
        info["certificate-authority-data"] = data
    for each in given.get("extensions") or ():
        if isinstance(each, dict) and each.get("name") == _PLUGIN:
            info["config"] = each.get("extension")
    return info


# Requests to the seed.


@dataclass(slots=True)
class _Seed:
    """A connection to the seed in the operator's name; an asynchronous context manager."""

    client: Any
    configuration: Any
    impersonated: list[tuple[str, str]] = field(repr=False)
    timeout: float

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.client.close()

    async def person(self) -> str | None:
        """The name by which the seed knows the operator; None if it does not say (before Kubernetes 1.28)."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        status, said = await self._post("/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
        if status == HTTPStatus.UNAUTHORIZED:
            raise self._unknown(said)
        return _member(said, str, "status", "userInfo", "username")

    async def token(self, account: NamespacedName, person: str | None) -> tuple[str, int]:
        """A token of `account` for the API of the watchdog, and the seconds that it lives.

        Raises:
            CommandFailed: The seed does not give one; the error says why.
        """
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [AUDIENCE], "expirationSeconds": LIFETIME},
        }
        place = f"/api/v1/namespaces/{account.namespace}/serviceaccounts/{account.name}/token"
        status, said = await self._post(place, body)
        refusal = _message(said)
        if status in {HTTPStatus.OK, HTTPStatus.CREATED}:
            if (token := _member(said, str, "status", "token")) is not None:
                lives = _member(said, int, "spec", "expirationSeconds")
                return token, LIFETIME if lives is None else lives
            refusal = "the answer is no TokenRequest"
        if status == HTTPStatus.UNAUTHORIZED:
            raise self._unknown(said)
        if status == HTTPStatus.FORBIDDEN:
            needed = "create serviceaccounts/token, with this resourceName"
            note = f"that takes the right to {needed}: docs/authentication.md"
            message = (
                f"{person or 'you'} may not make tokens of the ServiceAccount {account}: {refusal}"
            )
            raise CommandFailed(Exit.NOT_ALLOWED, message, [note])
        if status == HTTPStatus.NOT_FOUND:
            note = "the chart makes some with api.auth.serviceAccounts.create=true"
            message = f"there is no ServiceAccount {account}: {refusal}"
            raise CommandFailed(Exit.NOT_FOUND, message, [note])
        raise CommandFailed(
            Exit.FAILED,
            f"the seed gives no token of the ServiceAccount {account} ({status}): {refusal}",
            passing=status >= HTTPStatus.INTERNAL_SERVER_ERROR
            or status == HTTPStatus.TOO_MANY_REQUESTS,
        )

    def _unknown(self, said: bytes) -> CommandFailed:
        message = f"the seed does not know you: {self._host} answers 401: {_message(said)}"
        return CommandFailed(Exit.NOT_ALLOWED, message, ["does kubectl auth whoami work?"])

    @property
    def _host(self) -> str:
        return trimmed(str(self.configuration.host), 200)

    async def _post(self, path: str, body: Mapping[str, Any]) -> tuple[int, bytes]:
        headers = CIMultiDict([("Accept", "application/json"), *self.impersonated])
        headers["Content-Type"] = "application/json"
        if bearer := self.configuration.api_key.get("BearerToken"):
            headers["Authorization"] = bearer
        try:
            response = await self.client.rest_client.request(
                "POST",
                self.configuration.host + path,
                headers=headers,
                body=body,
                _preload_content=False,
                _request_timeout=self.timeout,
            )
            async with response:
                return int(response.status), await _beginning(response.content)
        except TimeoutError as error:
            raise NoAnswer(f"the seed at {self._host} does not answer in time") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            said = str(error) or type(error).__name__
            raise NoAnswer(f"the seed at {self._host} cannot be reached: {said}") from error


def _message(said: bytes) -> str:
    """The words of a refusal."""
    found = _member(said, str, "message")
    text = said[:200].decode("utf-8", "replace") if found is None else found
    return trimmed(text, 300) or "without a reason"


def _member(said: bytes, kind: type[T], *names: str) -> T | None:
    """The member of JSON below these names; None where there is none of this type."""
    try:
        found: Any = json.loads(said)
        for name in names:
            found = found[name]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return found if isinstance(found, kind) else None
