"""What an account is granted, rule by rule, and which of it the audit log has seen in use."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tests.e2e.api import Api, Json
from tests.e2e.audit import Request
from tests.e2e.landscape import RBAC

READING = frozenset({"get", "list", "watch"})


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One verb on one resource; everywhere and for every name, unless it says otherwise."""

    verb: str
    group: str
    resource: str
    """With its subresource: `deployments/scale`."""
    name: str = ""
    namespace: str = ""

    def covers(self, request: Request) -> bool:
        """Whether a request is one that this allows."""
        return (
            (self.verb, self.group, self.resource)
            == (request.verb, request.group, request.resource)
            and self.name in {"", request.name}
            and self.namespace in {"", request.namespace}
        )

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}.{self.group or 'core'} {self.name}{where}"


async def granted(seed: Api, account: str, namespace: str) -> set[Grant]:
    """All that bindings give to a ServiceAccount, as the API server has them."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    found: set[Grant] = set()
    for kind in ("clusterrolebindings", "rolebindings"):
        for binding in await seed.items(f"{RBAC}/{kind}"):
            if any(subject.items() <= each.items() for each in binding.get("subjects") or ()):
                inside = binding["metadata"].get("namespace", "")
                role = await seed.get(_path(binding["roleRef"], inside))
                found.update(_of(role["rules"], inside))
    return found


def _path(reference: Json, namespace: str) -> str:
    if reference["kind"] == "ClusterRole":
        return f"{RBAC}/clusterroles/{reference['name']}"
    return f"{RBAC}/namespaces/{namespace}/roles/{reference['name']}"


def _of(rules: Iterable[Json], namespace: str) -> Iterator[Grant]:
    for rule in rules:
        for group in rule.get("apiGroups") or ():
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames") or [""]:
                        yield Grant(verb, group, resource, name, namespace)


def unused(grants: Iterable[Grant], requests: Iterable[Request]) -> set[Grant]:
    """Those that no request needed."""
    asked = list(requests)
    return {each for each in grants if not any(each.covers(request) for request in asked)}


# T16's table grants it, and the chart what the table grants. No Event is written twice.
_ON_PAPER = {Grant("patch", "events.k8s.io", "events")}
# Tried at each start, and refused by the chart's rights: what carries the meltdown key but is not configured could be
# anywhere.
_TRIED = {("list", "deployments", "")}


async def assert_exact(
    seed: Api,
    account: str,
    namespace: str,
    asked: Iterable[Request],
    *,
    spare: Iterable[Grant] = (),
) -> None:
    """Nothing that an account asked for was forbidden, and nothing that it is granted was never needed.

    Who may list a thing may know it: get, list and watch go together, as in T16's table, so one of them is enough.
    `spare` is what these requests could not need.
    """
    requests = list(asked)
    refused = {(each.verb, each.resource, each.name) for each in requests if each.code == 403}
    assert refused <= _TRIED, f"{account} was refused {refused - _TRIED}"
    grants = await granted(seed, account, namespace)
    assert grants, f"nothing is granted to {account}"
    used = grants - unused(grants, requests)
    readable = {_thing(each) for each in used if each.verb in READING}
    never = {
        each
        for each in grants - used - _ON_PAPER - set(spare)
        if each.verb not in READING or _thing(each) not in readable
    }
    assert not never, f"{account} never used: {', '.join(map(str, sorted(never)))}"
    assert not used & set(spare), "what is called spare is used"


def _thing(grant: Grant) -> Grant:
    return replace(grant, verb="")
