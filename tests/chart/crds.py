"""The kinds of others that the chart has objects of: as much of their schemas as these objects may use.

Their own definitions are megabytes. Here are the fields that people set, each with its type; a field that is not here
is refused, as the real ones do it, so a misspelt one does not pass.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

Json = dict[str, Any]

_ANYTHING: Final[Json] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_STRING: Final[Json] = {"type": "string"}
_BOOLEAN: Final[Json] = {"type": "boolean"}
_INTEGER: Final[Json] = {"type": "integer"}
_NAME_OR_NUMBER: Final[Json] = {"x-kubernetes-int-or-string": True}


def _list(of: Json) -> Json:
    return {"type": "array", "items": of}


def _fields(*required: str, **fields: Json) -> Json:
    found: Json = {"type": "object", "properties": fields}
    return {**found, "required": list(required)} if required else found


_STRINGS: Final = _list(_STRING)
_MAP: Final[Json] = {"type": "object", "additionalProperties": _STRING}
_SELECTOR: Final = _fields(
    matchLabels=_MAP,
    matchExpressions=_list(
        _fields("key", "operator", key=_STRING, operator=_STRING, values=_STRINGS)
    ),
)
_NAMESPACES: Final = _fields(any=_BOOLEAN, matchNames=_STRINGS)
_KEY: Final = _fields("key", name=_STRING, key=_STRING, optional=_BOOLEAN)
_RELABELING: Final = _fields(
    action=_STRING,
    sourceLabels=_STRINGS,
    separator=_STRING,
    targetLabel=_STRING,
    regex=_STRING,
    modulus=_INTEGER,
    replacement=_STRING,
)
_FROM: Final = _fields(secret=_KEY, configMap=_KEY)
_SCRAPING: Final[Mapping[str, Json]] = {
    "port": _STRING,
    "targetPort": _NAME_OR_NUMBER,
    "path": _STRING,
    "scheme": {"type": "string", "enum": ["http", "https", "HTTP", "HTTPS"]},
    "interval": {"type": "string", "pattern": r"^([0-9]+(ms|[smhdwy]))+$"},
    "scrapeTimeout": {"type": "string", "pattern": r"^([0-9]+(ms|[smhdwy]))+$"},
    "honorLabels": _BOOLEAN,
    "honorTimestamps": _BOOLEAN,
    "params": {"type": "object", "additionalProperties": _STRINGS},
    "followRedirects": _BOOLEAN,
    "enableHttp2": _BOOLEAN,
    "authorization": _fields(type=_STRING, credentials=_KEY),
    "bearerTokenSecret": _KEY,
    "relabelings": _list(_RELABELING),
    "metricRelabelings": _list(_RELABELING),
}
_TLS: Final[Mapping[str, Json]] = {
    "ca": _FROM,
    "cert": _FROM,
    "keySecret": _KEY,
    "serverName": _STRING,
    "insecureSkipVerify": _BOOLEAN,
}
_FILES: Final[Mapping[str, Json]] = {"caFile": _STRING, "certFile": _STRING, "keyFile": _STRING}
_MONITOR: Final[Mapping[str, Json]] = {
    "jobLabel": _STRING,
    "podTargetLabels": _STRINGS,
    "selector": _SELECTOR,
    "namespaceSelector": _NAMESPACES,
    "sampleLimit": _INTEGER,
    "labelLimit": _INTEGER,
    "labelNameLengthLimit": _INTEGER,
    "labelValueLengthLimit": _INTEGER,
    "attachMetadata": _fields(node=_BOOLEAN),
}


def _service_monitor() -> Json:
    files: Json = {"bearerTokenFile": _STRING, "tlsConfig": _fields(**_TLS, **_FILES)}
    endpoint = _fields(**_SCRAPING, **files)
    return _fields(
        "selector", "endpoints", **_MONITOR, targetLabels=_STRINGS, endpoints=_list(endpoint)
    )


def _pod_monitor() -> Json:
    endpoint = _fields(**_SCRAPING, tlsConfig=_fields(**_TLS), portNumber=_INTEGER)
    return _fields("selector", **_MONITOR, podMetricsEndpoints=_list(endpoint))


def _prometheus_rule() -> Json:
    rule = _fields(
        "expr",
        alert=_STRING,
        record=_STRING,
        expr=_NAME_OR_NUMBER,
        labels=_MAP,
        annotations=_MAP,
        **{"for": _STRING, "keep_firing_for": _STRING},
    )
    group = _fields("name", name=_STRING, interval=_STRING, limit=_INTEGER, rules=_list(rule))
    return _fields(groups=_list(group))


def _autoscaler() -> Json:
    quantities = {"type": "object", "additionalProperties": _NAME_OR_NUMBER}
    container = _fields(
        containerName=_STRING,
        mode={"type": "string", "enum": ["Auto", "Off"]},
        minAllowed=quantities,
        maxAllowed=quantities,
        controlledResources=_STRINGS,
        controlledValues={"type": "string", "enum": ["RequestsAndLimits", "RequestsOnly"]},
    )
    modes = ["Off", "Initial", "Recreate", "InPlaceOrRecreate", "Auto"]
    policy = _fields(updateMode={"type": "string", "enum": modes}, minReplicas=_INTEGER)
    target = _fields("kind", "name", apiVersion=_STRING, kind=_STRING, name=_STRING)
    return _fields(
        "targetRef",
        targetRef=target,
        updatePolicy=policy,
        resourcePolicy=_fields(containerPolicies=_list(container)),
        recommenders=_list(_fields("name", name=_STRING)),
    )


def _certificate() -> Json:
    key = _fields(
        algorithm={"type": "string", "enum": ["RSA", "ECDSA", "Ed25519"]},
        encoding={"type": "string", "enum": ["PKCS1", "PKCS8"]},
        size=_INTEGER,
        rotationPolicy={"type": "string", "enum": ["Never", "Always"]},
    )
    return _fields(
        "secretName",
        "issuerRef",
        secretName=_STRING,
        secretTemplate=_fields(labels=_MAP, annotations=_MAP),
        commonName=_STRING,
        dnsNames=_STRINGS,
        ipAddresses=_STRINGS,
        duration=_STRING,
        renewBefore=_STRING,
        usages=_STRINGS,
        privateKey=key,
        revisionHistoryLimit=_INTEGER,
        issuerRef=_fields("name", name=_STRING, kind=_STRING, group=_STRING),
    )


def _route() -> Json:
    parent = _fields(
        "name",
        group=_STRING,
        kind=_STRING,
        namespace=_STRING,
        name=_STRING,
        sectionName=_STRING,
        port=_INTEGER,
    )
    path = _fields(
        type={"type": "string", "enum": ["Exact", "PathPrefix", "RegularExpression"]}, value=_STRING
    )
    backend = _fields(
        "name",
        group=_STRING,
        kind=_STRING,
        namespace=_STRING,
        name=_STRING,
        port=_INTEGER,
        weight=_INTEGER,
    )
    match = _fields(path=path, headers=_list(_ANYTHING), method=_STRING)
    rule = _fields(
        name=_STRING,
        matches=_list(match),
        filters=_list(_ANYTHING),
        backendRefs=_list(backend),
        timeouts=_fields(request=_STRING, backendRequest=_STRING),
    )
    return _fields(parentRefs=_list(parent), hostnames=_STRINGS, rules=_list(rule))


def _kinds() -> Iterator[tuple[str, str, str, str, Json]]:
    yield "monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors", _service_monitor()
    yield "monitoring.coreos.com", "v1", "PodMonitor", "podmonitors", _pod_monitor()
    yield "monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules", _prometheus_rule()
    yield (
        "autoscaling.k8s.io",
        "v1",
        "VerticalPodAutoscaler",
        "verticalpodautoscalers",
        _autoscaler(),
    )
    yield "cert-manager.io", "v1", "Certificate", "certificates", _certificate()
    yield "gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes", _route()


def optional_crds() -> list[Json]:
    """Their definitions, for an API server."""
    return [_definition(*each) for each in _kinds()]


def optional_kinds() -> set[str]:
    """The kinds without which the chart has to do, too."""
    return {kind for _, _, kind, _, _ in _kinds()}


def _definition(group: str, version: str, kind: str, plural: str, spec: Json) -> Json:
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {"spec": spec, "status": _ANYTHING},
    }
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    metadata: Json = {"name": f"{plural}.{group}"}
    if group.endswith("k8s.io"):  # protected: whoever defines such a kind says that it was agreed
        metadata["annotations"] = {
            "api-approved.kubernetes.io": "unapproved, a definition for tests"
        }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }
