"""The kinds of others that the chart has objects of: as much of their schemas as these objects use.

Their own definitions are megabytes. Here are the fields that the chart writes and that values pass on, each with its
type; a field that is not here is refused, as the real ones do it, so a misspelt one does not pass.
"""

from collections.abc import Iterator
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
_SELECTOR: Final = _fields(matchLabels=_MAP)
_SCRAPING: Final = _list(
    _fields(
        port=_STRING,
        interval={"type": "string", "pattern": r"^([0-9]+(ms|[smhdwy]))+$"},
        scrapeTimeout={"type": "string", "pattern": r"^([0-9]+(ms|[smhdwy]))+$"},
        honorLabels=_BOOLEAN,
        authorization=_fields(type=_STRING, credentials=_fields("key", name=_STRING, key=_STRING)),
        **dict.fromkeys(
            ("relabelings", "metricRelabelings"),
            _list(
                _fields(
                    action=_STRING,
                    sourceLabels=_STRINGS,
                    separator=_STRING,
                    targetLabel=_STRING,
                    regex=_STRING,
                    modulus=_INTEGER,
                    replacement=_STRING,
                )
            ),
        ),
    )
)


def _prometheus_rule() -> Json:
    rule = _fields(
        "expr",
        alert=_STRING,
        expr=_NAME_OR_NUMBER,
        labels=_MAP,
        annotations=_MAP,
        **{"for": _STRING},
    )
    group = _fields("name", name=_STRING, rules=_list(rule))
    return _fields(groups=_list(group))


def _autoscaler() -> Json:
    quantities = {"type": "object", "additionalProperties": _NAME_OR_NUMBER}
    container = _fields(
        containerName=_STRING,
        minAllowed=quantities,
        maxAllowed=quantities,
        controlledValues={"type": "string", "enum": ["RequestsAndLimits", "RequestsOnly"]},
    )
    modes = ["Off", "Initial", "Recreate", "InPlaceOrRecreate", "Auto"]
    return _fields(
        "targetRef",
        targetRef=_fields("kind", "name", apiVersion=_STRING, kind=_STRING, name=_STRING),
        updatePolicy=_fields(updateMode={"type": "string", "enum": modes}),
        resourcePolicy=_fields(containerPolicies=_list(container)),
    )


def _certificate() -> Json:
    key = _fields(
        algorithm={"type": "string", "enum": ["RSA", "ECDSA", "Ed25519"]},
        size=_INTEGER,
        rotationPolicy={"type": "string", "enum": ["Never", "Always"]},
    )
    return _fields(
        "secretName",
        "issuerRef",
        secretName=_STRING,
        dnsNames=_STRINGS,
        duration=_STRING,
        renewBefore=_STRING,
        usages=_STRINGS,
        privateKey=key,
        issuerRef=_fields("name", name=_STRING, kind=_STRING, group=_STRING),
    )


def _route() -> Json:
    names = dict.fromkeys(("group", "kind", "namespace", "name", "sectionName"), _STRING)
    rule = _fields(backendRefs=_list(_fields("name", name=_STRING, port=_INTEGER)))
    return _fields(
        parentRefs=_list(_fields("name", port=_INTEGER, **names)),
        hostnames=_STRINGS,
        rules=_list(rule),
    )


def _kinds() -> Iterator[tuple[str, str, str, str, Json]]:
    yield (
        "monitoring.coreos.com",
        "v1",
        "ServiceMonitor",
        "servicemonitors",
        _fields("selector", "endpoints", selector=_SELECTOR, endpoints=_SCRAPING),
    )
    yield (
        "monitoring.coreos.com",
        "v1",
        "PodMonitor",
        "podmonitors",
        _fields("selector", selector=_SELECTOR, podMetricsEndpoints=_SCRAPING),
    )
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
