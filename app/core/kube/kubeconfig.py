"""The strict parser of a shoot's kubeconfig (threats T1-T5): pure, an allow-list, evaluates and reveals no value.

Anyone who can write the Secret chooses its content, and the watchdog uses it with its own network access. So the parser
accepts only what kubectl and Gardener write: one context, one cluster and one user that fit together, an https server,
an inline CA bundle, and an inline token or client certificate with its key. Any other field is refused by name. Error
messages name fields and never quote values, which may be secrets.
"""

import binascii
import ipaddress
import re
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, Final

import yaml

from app.core.bounded_tls import BoundedContext, agree_cheaply
from app.core.errors import AddressForbidden, CredentialRefused
from app.core.fair_queue import Consumer
from app.core.tls import as_file, load_chain

# Unspecified (connecting to 0.0.0.0 reaches this machine) and other addresses that no host can have.
_THIS_NETWORK: Final = ipaddress.IPv4Network("0.0.0.0/8")
# IPv6 prefixes whose last 32 bits are an IPv4 address.
_HOLDING_IPV4: Final = tuple(
    ipaddress.IPv6Network(text)
    for text in (
        "::/96",  # "compatible", of old
        "::ffff:0:0/96",  # mapped
        "::ffff:0:0:0/96",  # translated
        "64:ff9b::/96",  # NAT64
        "64:ff9b:1::/48",  # NAT64 within one network
    )
)
_LAST_32_BITS: Final = 0xFFFF_FFFF


def is_literal(host: str) -> bool:
    """Returns whether a host is an IP address literal, without brackets."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_forbidden(text: str) -> bool:
    """Returns whether an address is loopback, link-local, multicast or unspecified, also as IPv6 with embedded IPv4.

    Text that is not an address is forbidden, too.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return True
    return any(
        each.is_loopback
        or each.is_link_local
        or each.is_multicast
        or each.is_unspecified
        or each in _THIS_NETWORK
        for each in (address, *_within(address))
    )


def _within(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> tuple[ipaddress.IPv4Address, ...]:
    """Returns the IPv4 addresses that are embedded in an IPv6 address."""
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    found = [ipaddress.IPv4Address(int(address) & _LAST_32_BITS)]
    if not any(address in prefix for prefix in _HOLDING_IPV4):
        found.clear()
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address.teredo is not None:
        found.append(address.teredo[1])
    return tuple(found)


# YAML from an untrusted source, as text, lists and mappings only: no anchors, tags, types or sizes that could hurt
# (threat T18).
#
# The cost of a text is bounded before it is parsed (its bytes) and while it is (the number of parser events). Only
# libyaml's event parser is used, whose time is proportional to the text. PyYAML's resolver and constructor are not
# used: they have base-60 integers, timestamps, merge keys and hashes that collide.


Value = None | str | list["Value"] | dict[str, "Value"]
"""A YAML value. Every scalar is text as written; an omitted one, or a plain `null`, is None."""

MAX_BYTES: Final = 384 * 1024
"""A hundred certificates take 300 kB in base64."""
MAX_EVENTS: Final = 1_000
"""A kubeconfig with one context has about 60."""
_MAX_DEPTH: Final = 16
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
# A `%` at the start of a line; libyaml compares each `%TAG` directive with all before it.
_DIRECTIVE: Final = re.compile("[\r\n\u0085\u2028\u2029\ufeff]%")


class YamlRefused(Exception):
    """The text is refused; the message quotes none of it."""


class _OpenCollection:
    """A list or mapping that is still being parsed."""

    def __init__(self, value: list[Value] | dict[str, Value]) -> None:
        self.value = value
        self._key: str | None = None

    def put(self, value: Value) -> None:
        """Adds an item, a key, or the value of the last key."""
        if isinstance(self.value, list):
            self.value.append(value)
        elif self._key is not None:
            self.value[self._key], self._key = value, None
        elif not isinstance(value, str):
            raise YamlRefused("a key is not a plain word")
        elif value in self.value:
            raise YamlRefused("a key is duplicated")
        else:
            self._key = value


def load(raw: bytes, *, max_bytes: int = MAX_BYTES, max_events: int = MAX_EVENTS) -> Value:
    """Parses the single YAML document in `raw`.

    Raises:
        YamlRefused: it is too long, too deep, malformed, or uses anchors, aliases, tags, directives or duplicate keys.
    """
    if len(raw) > max_bytes:
        raise YamlRefused(f"it is longer than {max_bytes} bytes")
    try:
        text = raw.decode()
        if text.startswith("%") or ("%" in text and _DIRECTIVE.search(text)):
            raise YamlRefused("it uses a directive")
        return _built(yaml.parse(text, Loader=yaml.CBaseLoader), max_events)
    except (yaml.YAMLError, ValueError):
        # the parser's message quotes the text, which may be a secret
        raise YamlRefused("it is not well-formed YAML") from None


def _built(events: Iterator[yaml.Event], max_events: int) -> Value:
    """Builds the value from parser events, without recursion or expansion."""
    root: list[Value] = []
    above = [_OpenCollection(root)]
    for number, event in enumerate(events):
        if number >= max_events:
            raise YamlRefused(f"it has more than {max_events} parts")
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            raise YamlRefused("it uses an anchor or an alias")
        valued = yaml.ScalarEvent | yaml.CollectionStartEvent
        if isinstance(event, valued) and event.tag is not None:
            raise YamlRefused("it uses a tag")
        match event:
            case yaml.ScalarEvent(value=text, implicit=(plain, _)):
                above[-1].put(None if plain and text in _NULLS else text)
            case yaml.MappingStartEvent():
                above.append(_OpenCollection({}))
            case yaml.SequenceStartEvent():
                above.append(_OpenCollection([]))
            case yaml.CollectionEndEvent():
                done = above.pop()
                above[-1].put(done.value)
            case _:
                pass
        if len(above) > _MAX_DEPTH or len(root) > 1:
            raise YamlRefused("it is nested too deeply, or more than one document")
    return root[0] if root else None


_SERVER: Final = re.compile(
    r"https://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)(:(?P<port>[0-9]{1,5}))?"
)
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,65536}")
_DEFAULT_PORTS: Final = frozenset({443, 6443})
_MAX_PORT: Final = 65535
# Maximum number of certificates in a bundle or a chain.
_MAX_BLOCKS: Final = 100
# Maximum bytes of a private key in PEM; one of RSA with 4,096 bits has 3,300. OpenSSL limits neither exponents nor the
# numbers of DSA: it took 6 s to load a key of 18 kB, and a thread in OpenSSL cannot be stopped.
_MAX_KEY: Final = 4_096
_SPACE: Final = b" \t\r\n\v\f"
_CERTIFICATE: Final = "CERTIFICATE"
_PRIVATE_KEY: Final = "PRIVATE KEY"
# PEM headers are not accepted: for a certificate that claims to be encrypted, OpenSSL would prompt on the terminal and
# block.
_BLOCKS: Final = {
    _CERTIFICATE: re.compile(
        rb"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]++-----END CERTIFICATE-----"
    ),
    _PRIVATE_KEY: re.compile(
        rb"-----BEGIN ((?:[A-Z]+ )?PRIVATE KEY)-----[A-Za-z0-9+/=\s]++-----END \1-----"
    ),
}
_MAX_LABEL: Final = 63
# A host whose last label is a number is an IPv4 address to some resolvers.
_NUMBER: Final = re.compile(r"(^|\.)([0-9]+|0x[0-9a-f]*)$")

_TOP: Final = frozenset(
    {"apiVersion", "kind", "preferences", "current-context", "clusters", "contexts", "users"}
)
_CLUSTER: Final = frozenset({"server", "certificate-authority-data"})
_CONTEXT: Final = frozenset({"cluster", "user", "namespace"})
_USER: Final = frozenset({"token", "client-certificate-data", "client-key-data"})
_METRIC_WORDS: Final = {
    "exec": "exec",
    "auth-provider": "auth-provider",
    "tokenFile": "file",
    "certificate-authority": "file",
    "client-certificate": "file",
    "client-key": "file",
    "proxy-url": "proxy",
    "insecure-skip-tls-verify": "insecure",
    "tls-server-name": "insecure",
    "username": "password",
    "password": "password",
    "as": "impersonation",
    "as-uid": "impersonation",
    "as-groups": "impersonation",
    "as-user-extra": "impersonation",
}

NO_TOKEN: Final = "no-token"  # noqa: S105 - the reason's name, not a token
"""Reason for a user without token and certificate: Gardener first writes the kubeconfig like that and adds the token
later."""

NO_KUBECONFIG: Final = "no-kubeconfig"
"""Reason for a Secret without the key `kubeconfig`."""

REASONS: Final = frozenset(
    (*_METRIC_WORDS.values(), "ambiguous", "field", "malformed", "server", NO_TOKEN, NO_KUBECONFIG)
)
"""All reasons for refusing a kubeconfig, as in the metric."""


@dataclass(frozen=True, slots=True)
class ServerPolicy:
    """Which servers the kubeconfig of a control plane may name (threat T5)."""

    flag: ClassVar = "--shoot-server-pattern"
    """The flag that sets the pattern."""
    cluster_domain: str = "cluster.local"
    pattern: str | None = None
    """Regular expression that must match all of `host:port`; `{namespace}` stands for the namespace. Replaces the
    default rule."""

    @property
    def rule(self) -> str:
        """What the policy allows, in words for operators."""
        return "the API server of its own namespace" if self.pattern is None else "one it allows"

    def allows(self, namespace: str, host: str, port: int) -> bool:
        """Returns whether the kubeconfig of `namespace` may name this server."""
        if self.pattern is not None:
            return _matches(self.pattern, namespace, host, port)
        name = f"kube-apiserver.{namespace}.svc"
        return host in {name, f"{name}.{self.cluster_domain}"} and port in _DEFAULT_PORTS


@dataclass(frozen=True, slots=True)
class ExternalServerPolicy:
    """Which servers the external kubeconfig of endpoint mode may name, and the addresses they may have (threat T5)."""

    flag: ClassVar = "--external-server-pattern"
    """The flag that sets the pattern."""
    pattern: str | None = None
    """As in `ServerPolicy`; None allows any server."""

    @property
    def rule(self) -> str:
        """What the policy allows, in words for operators."""
        return "a name or an address" if self.pattern is None else "one it allows"

    def allows(self, namespace: str, host: str, port: int) -> bool:
        """Returns whether the kubeconfig of `namespace` may name this server."""
        return self.pattern is None or _matches(self.pattern, namespace, host, port)

    def check(self, host: str) -> None:
        """Checks a server that is named by an address, which may be any if the pattern matches it as written.

        Raises:
            AddressForbidden: the address is not allowed.
        """
        if self.pattern is None and is_literal(host) and is_forbidden(host):
            raise self._forbidden("the server's address is")

    def allowed(self, addresses: Iterable[str]) -> frozenset[str]:
        """Returns the addresses of a name that may be connected to.

        Raises:
            AddressForbidden: none of them may.
        """
        found = frozenset(each for each in addresses if not is_forbidden(each))
        if not found:
            raise self._forbidden("the server's name leads to")
        return found

    def _forbidden(self, subject: str) -> AddressForbidden:
        what = "an address that is loopback, link-local, multicast or unspecified"
        return AddressForbidden(f"{subject} {what} (see {self.flag})")


Servers = ServerPolicy | ExternalServerPolicy


def _matches(pattern: str, namespace: str, host: str, port: int) -> bool:
    pattern = pattern.replace("{namespace}", re.escape(namespace))
    return re.fullmatch(pattern, f"{host}:{port}") is not None


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A client certificate and its private key, in PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "ClientCertificate(…)"


@dataclass(frozen=True, slots=True)
class ShootCredential:
    """Everything that is taken from a kubeconfig."""

    host: str
    """An IPv6 address is in brackets."""
    port: int
    ca: str
    """The CA bundle in PEM."""
    token: str | None = None
    client: ClientCertificate | None = None

    def __repr__(self) -> str:
        return f"ShootCredential({self.host}:{self.port})"

    def same_server(self, other: "ShootCredential") -> bool:
        """Returns whether connections made with `other` can be reused: at most the token differs."""
        return replace(self, token=other.token) == other


def parse_kubeconfig(raw: bytes | None, namespace: str, servers: Servers) -> ShootCredential:
    """Parses the kubeconfig of the shoot whose control plane is in `namespace`; None: its Secret has none.

    Raises:
        CredentialRefused: the kubeconfig is not accepted; names the field, never its value.
    """
    if raw is None:
        raise CredentialRefused(NO_KUBECONFIG, "the Secret has no key kubeconfig")
    try:
        document = load(raw)
    except YamlRefused as error:
        raise CredentialRefused("malformed", f"kubeconfig: {error}") from error
    top = _mapping(document, "kubeconfig", _TOP)
    _check_header(top)
    context = _context(top)
    named = _named(top, "clusters", "cluster", _string(context, "cluster", "contexts[0].context"))
    cluster = _mapping(named, "clusters[0].cluster", _CLUSTER)
    user = _named(top, "users", "user", _string(context, "user", "contexts[0].context"))
    host, port = _server(cluster, namespace, servers)
    ca = _pem(cluster, "certificate-authority-data", "clusters[0].cluster", _CERTIFICATE)
    token, client = _identity(_mapping({} if user is None else user, "users[0].user", _USER))
    return ShootCredential(host, port, ca.decode(), token, client)


def _refused(field: str, problem: str, reason: str = "malformed") -> CredentialRefused:
    return CredentialRefused(reason, f"kubeconfig: {field} {problem}")


def _mapping(value: object, path: str, allowed: frozenset[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _refused(path, "is not a mapping")
    for name in map(str, value):
        if name in allowed:
            continue
        if name in _METRIC_WORDS:
            raise _refused(f"{path}.{name}", "is not allowed", _METRIC_WORDS[name])
        # an unknown key may itself be a misplaced value
        shown = name if re.fullmatch(r"[A-Za-z-]{1,40}", name) else "a field with an unusual name"
        raise _refused(f"{path}.{shown}", "is not allowed", "field")
    return value


def _check_header(top: Mapping[str, Any]) -> None:
    if top.get("apiVersion", "v1") != "v1":
        raise _refused("apiVersion", "is not v1")
    if top.get("kind", "Config") != "Config":
        raise _refused("kind", "is not Config")
    if top.get("preferences") not in (None, {}):
        raise _refused("preferences", "is not empty", "field")


def _context(top: Mapping[str, Any]) -> Mapping[str, Any]:
    entry = _only(top, "contexts", "context")
    wanted = top.get("current-context")
    if wanted not in (None, "", entry["name"]):
        raise _refused("current-context", "names a context that does not exist", "ambiguous")
    context = _mapping(entry.get("context"), "contexts[0].context", _CONTEXT)
    if not isinstance(context.get("namespace", ""), str | None):
        raise _refused("contexts[0].context.namespace", "is not text")
    return context


def _only(top: Mapping[str, Any], plural: str, singular: str) -> Mapping[str, Any]:
    entries = top.get(plural)
    if not isinstance(entries, list) or len(entries) != 1:
        raise _refused(plural, "does not have exactly one entry", "ambiguous")
    entry = _mapping(entries[0], f"{plural}[0]", frozenset({"name", singular}))
    _string(entry, "name", f"{plural}[0]")
    return entry


def _named(top: Mapping[str, Any], plural: str, singular: str, name: str) -> object:
    entry = _only(top, plural, singular)
    if entry["name"] != name:
        raise _refused(
            f"contexts[0].context.{singular}",
            f"does not name the only entry of {plural}",
            "ambiguous",
        )
    return entry.get(singular)


def _string(mapping: Mapping[str, Any], key: str, path: str) -> str:
    value = mapping.get(key)
    if not isinstance(value, str) or not value:
        raise _refused(f"{path}.{key}", "is missing or not text")
    return value


def _server(cluster: Mapping[str, Any], namespace: str, servers: Servers) -> tuple[str, int]:
    text = _string(cluster, "server", "clusters[0].cluster")
    match = _SERVER.fullmatch(text)
    if match is None:
        raise _refused(
            "clusters[0].cluster.server",
            "is not https://host or https://host:port without user, path, query or fragment "
            f"(this holds with {servers.flag} too)",
            "server",
        )
    host, port = match["host"].lower(), int(match["port"] or 443)
    if not _is_host(host) or not 0 < port <= _MAX_PORT or not servers.allows(namespace, host, port):
        problem = f"is not {servers.rule} (see {servers.flag})"
        raise _refused("clusters[0].cluster.server", problem, "server")
    return host, port


def _is_host(host: str) -> bool:
    if not host.startswith("["):
        # Some resolvers take `127.1` and `0x7f000001` for addresses, others for names; a label that is too long is
        # neither.
        short = all(0 < len(label) <= _MAX_LABEL for label in host.split("."))
        return short and (is_literal(host) or _NUMBER.search(host) is None)
    try:
        return ipaddress.IPv6Address(host[1:-1]) is not None
    except ValueError:
        return False


def _pem(mapping: Mapping[str, Any], key: str, path: str, label: str) -> bytes:
    """Returns the PEM blocks of this kind, without the text between them."""
    text = _string(mapping, key, path)
    try:
        packed = text.encode("ascii").translate(None, _SPACE)
        pem = binascii.a2b_base64(packed, strict_mode=True)
    except ValueError:
        # the cause would quote the value
        raise _refused(f"{path}.{key}", "is not base64") from None
    found = list(islice(_BLOCKS[label].finditer(pem), _MAX_BLOCKS + 1))
    if not found:
        raise _refused(f"{path}.{key}", f"has no PEM block {label}")
    if len(found) > _MAX_BLOCKS:
        raise _refused(f"{path}.{key}", f"has more than {_MAX_BLOCKS} PEM blocks {label}")
    return b"\n".join(each[0] for each in found) + b"\n"


def certificates(bundle: bytes) -> str:
    """Returns the certificates of the seed's CA bundle without the text between them, which may be in any encoding.

    Raises:
        CredentialRefused: there is none.
    """
    found = b"\n".join(each[0] for each in _BLOCKS[_CERTIFICATE].finditer(bundle))
    if not found:
        raise CredentialRefused("malformed", "is not a CA bundle")
    return found.decode() + "\n"


def is_token(text: str) -> bool:
    """Whether it can be sent as a bearer token: printable text without spaces."""
    return _TOKEN.fullmatch(text) is not None


def _identity(user: Mapping[str, Any]) -> tuple[str | None, ClientCertificate | None]:
    path = "users[0].user"
    given = user.get("token") or None
    has_cert, has_key = bool(user.get("client-certificate-data")), bool(user.get("client-key-data"))
    if has_cert != has_key:
        raise _refused(path, "has a client certificate without its key, or the reverse")
    if given is None and not has_cert:
        raise _refused(path, "has no token and no client certificate yet", NO_TOKEN)
    client = None
    if has_cert:
        client = ClientCertificate(
            _pem(user, "client-certificate-data", path, _CERTIFICATE),
            _key(user, path),
        )
    if given is None:
        return None, client
    token = given.strip() if isinstance(given, str) else ""
    if not is_token(token):
        raise _refused(f"{path}.token", "is not printable text without spaces")
    return token, client


def _key(user: Mapping[str, Any], path: str) -> bytes:
    pem = _pem(user, "client-key-data", path, _PRIVATE_KEY)
    if len(pem) > _MAX_KEY:
        raise _refused(f"{path}.client-key-data", f"has more than {_MAX_KEY} bytes")
    return pem


# TLS contexts that trust one CA bundle and nothing else (threat T4).


def client_context(
    ca: str, client: ClientCertificate | None = None, consumer: Consumer | None = None
) -> BoundedContext:
    """Creates a TLS context that trusts the bundle `ca` (PEM) and verifies host names.

    Takes up to 30 ms for a bundle from an untrusted source, so such a call belongs in a thread.

    Args:
        ca: the CA bundle.
        client: our certificate and key, if any.
        consumer: charged for processing the servers' answers.

    Raises:
        CredentialRefused: the bundle, the client certificate or its key cannot be loaded.
    """
    context = BoundedContext(consumer)
    agree_cheaply(context)
    try:
        # As a file, because only then does Python release the GIL; a hundred certificates take 10 to 30 ms.
        with as_file(ca.encode()) as path:
            context.load_verify_locations(cafile=path)
    except (ssl.SSLError, ValueError):
        # the cause may quote what it could not parse
        raise CredentialRefused(
            "malformed", "certificate-authority-data is not a CA bundle"
        ) from None
    try:
        if client is not None:
            load_chain(context, client.certificate + b"\n" + client.key)
    except (ssl.SSLError, ValueError):
        message = "client-certificate-data and client-key-data do not form a usable pair"
        raise CredentialRefused("malformed", message) from None
    return context
