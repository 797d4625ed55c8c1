"""Values that are right each by itself and do not go together are refused, all at once, each with its path."""

from typing import Any

import pytest

from tests.chart.rendering import CHART, Json, Renderer
from tests.chart.tools import Failed

pytestmark = pytest.mark.real

TLS = {"tls": {"secretName": "given"}}


def dependents(*refs: Json, **more: Any) -> Json:
    found = [{"ref": ref, "scaleUp": {}, "scaleDown": {}, **more} for ref in refs]
    return {"prober": {"config": {"dependentResourceInfos": found}}}


def deployment(**more: Any) -> Json:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", **more}


def budget(replicas: int, **budget: Any) -> Json:
    """Values with so many pods of the prober, and a PodDisruptionBudget that says only this."""
    nothing = {"maxUnavailable": None, "minAvailable": None}
    return {"prober": {"replicas": replicas, "pdb": {**nothing, **budget}}}


TOGETHER: list[tuple[str, Json]] = [
    ("mode: serve runs both loops", {"mode": "serve", "prober": {"enabled": False}}),
    ("mode: serve runs both loops", {"mode": "serve", "weeder": {"enabled": False}}),
    (
        "prober.enabled: must be true where weeder.enabled is not",
        {"prober": {"enabled": False}, "weeder": {"enabled": False}},
    ),
    (
        "api.auth.serviceAccounts.create: is for api.auth.mode kubernetes only, not token",
        {
            "api": {
                "auth": {
                    "mode": "token",
                    "tokenSecret": {"name": "x"},
                    "serviceAccounts": {"create": True},
                }
            }
        },
    ),
    (
        "api.auth.serviceAccounts.create: needs rbac.create and api.auth.callerRoles",
        {"api": {"auth": {"callerRoles": False, "serviceAccounts": {"create": True}}}},
    ),
    (
        "api.auth.serviceAccounts.create: needs rbac.create and api.auth.callerRoles",
        {"rbac": {"create": False}, "api": {"auth": {"serviceAccounts": {"create": True}}}},
    ),
    (
        "api.auth.serviceAccounts.tokensFor.admin: needs api.auth.serviceAccounts.create",
        {
            "api": {
                "auth": {
                    "serviceAccounts": {"tokensFor": {"admin": [{"kind": "User", "name": "x"}]}}
                }
            }
        },
    ),
    (
        "serviceAccount.names.weeder: must not be that of the callers, dwd-admin",
        {
            "fullnameOverride": "dwd",
            "serviceAccount": {"names": {"weeder": "dwd-admin"}},
            "api": {"auth": {"serviceAccounts": {"create": True}}},
        },
    ),
    ("ports: must differ, not 9643, 9643 and 9644", {"ports": {"api": 9643}}),
    (
        "prober.config.kubeConfigSecretName: is required",
        {"prober": {"config": {"kubeConfigSecretName": None}}},
    ),
    (
        "prober.config.dependentResourceInfos: is required",
        {"prober": {"config": {"dependentResourceInfos": None}}},
    ),
    (
        "prober.config.suspectProbeInterval: must be at most probeInterval (10s), not 10.5s",
        {"prober": {"config": {"suspectProbeInterval": "10.5s"}}},
    ),
    (
        "prober.config.maxProtectionDuration: must be at most 24h, not 24h0m1s",
        {"prober": {"config": {"maxProtectionDuration": "24h0m1s"}}},
    ),
    (
        "prober.config.dependentResourceInfos[0].ref.resource: is required for Scaler of example.org/v1",
        dependents({"apiVersion": "example.org/v1", "kind": "Scaler", "name": "x"}),
    ),
    (
        "prober.config.dependentResourceInfos[0].ref.resource: is required for DaemonSet of apps/v1",
        dependents(deployment(kind="DaemonSet")),
    ),
    (
        "prober.config.dependentResourceInfos[0].ref.resource: is required for Deployment of apps/v1beta1",
        dependents(deployment(apiVersion="apps/v1beta1")),
    ),
    (
        "prober.config.dependentResourceInfos[0].ref.resource: must be deployments or absent",
        dependents(deployment(resource="pods")),
    ),
    (
        "prober.config.dependentResourceInfos[1].ref: Deployment/x is named twice, first in prober.config",
        dependents(deployment(), deployment(apiVersion="apps/v2", resource="deployments")),
    ),
    (
        "prober.config.dependentResourceInfos[0].shouldExist: is the inverse of optional",
        dependents(deployment(), optional=False, shouldExist=False),
    ),
    (
        "weeder.config.servicesAndDependantSelectors: must have at least one service",
        {
            "weeder": {
                "config": {
                    "servicesAndDependantSelectors": {
                        "kube-apiserver": None,
                        "etcd-main-client": None,
                    }
                }
            }
        },
    ),
    (
        "prober.replicas: must be at most 1 without leaderElection.enabled, not 2",
        {"leaderElection": {"enabled": False}, "weeder": {"replicas": 1}},
    ),
    (
        "weeder.podLabels[app.kubernetes.io/component]: is the chart's own",
        {"weeder": {"podLabels": {"app.kubernetes.io/component": "x"}}},
    ),
    (
        "labels[app.kubernetes.io/name]: is the chart's own",
        {"labels": {"app.kubernetes.io/name": "x"}},
    ),
    (
        "prober.pdb.minAvailable: stands instead of maxUnavailable",
        {"prober": {"pdb": {"minAvailable": 1}}},
    ),
    (
        "prober.pdb.maxUnavailable: is required where there is no minAvailable",
        {"prober": {"pdb": {"maxUnavailable": None}}},
    ),
    (
        "leaderElection.leaseDuration: must be at least 1s, not 900ms",
        {
            "leaderElection": {
                "leaseDuration": "900ms",
                "renewDeadline": "800ms",
                "retryPeriod": "100ms",
            }
        },
    ),
    (
        "leaderElection: must fit: leaseDuration > renewDeadline > 1.2 × retryPeriod, not 10s, 10s and 2s",
        {"leaderElection": {"leaseDuration": "10s"}},
    ),
    (
        "leaderElection: must fit: leaseDuration > renewDeadline > 1.2 × retryPeriod, not 15s, 2.4s and 2s",
        {"leaderElection": {"renewDeadline": "2.4s"}},
    ),
    ("api.auth.mode: must be kubernetes or token", {"api": {"auth": {"mode": "none"}, **TLS}}),
    (
        "api.auth.mode: must be kubernetes or token",
        {"api": {"auth": {"mode": "none"}, "plainHttp": True}},
    ),
    (
        "api.auth.tokenSecret.name: is required with api.auth.mode token",
        {"api": {"auth": {"mode": "token"}}},
    ),
    (
        "api.auth.tokenSecret.name: is for api.auth.mode token only, not kubernetes",
        {"api": {"auth": {"tokenSecret": {"name": "x"}}}},
    ),
    (
        "api.tls.secretName: must be empty with api.tls.certManager.enabled",
        {
            "api": {
                "tls": {
                    "secretName": "x",
                    "certManager": {"enabled": True, "issuerRef": {"name": "x"}},
                }
            }
        },
    ),
    ("api.plainHttp: must be false where there is TLS", {"api": {"plainHttp": True, **TLS}}),
    (
        "api.tls.certManager.issuerRef.name: is required",
        {"api": {"tls": {"certManager": {"enabled": True}}}},
    ),
    (
        "api.tls.certManager.renewBefore: must be less than duration (2160h), not 2160h",
        {
            "api": {
                "tls": {
                    "certManager": {
                        "enabled": True,
                        "issuerRef": {"name": "x"},
                        "renewBefore": "2160h",
                    }
                }
            }
        },
    ),
    (
        "api.ingress.enabled: needs api.tls or api.plainHttp",
        {"api": {"ingress": {"enabled": True, "host": "x.example.org"}}},
    ),
    ("api.ingress.host: is required", {"api": {"ingress": {"enabled": True}, **TLS}}),
    (
        "api.ingress.weederHost: is for a weeder with a Deployment of its own",
        {
            "mode": "serve",
            "api": {"ingress": {"enabled": True, "host": "x.org", "weederHost": "y.org"}, **TLS},
        },
    ),
    (
        "api.ingress.host: is the prober's, which does not run; use weederHost",
        {
            "prober": {"enabled": False},
            "api": {"ingress": {"enabled": True, "host": "x.org", "weederHost": "y.org"}, **TLS},
        },
    ),
    (
        "api.ingress.weederHost: is required",
        {"prober": {"enabled": False}, "api": {"ingress": {"enabled": True}, **TLS}},
    ),
    (
        "api.httpRoute.parentRefs: is required",
        {"api": {"httpRoute": {"enabled": True, "hostnames": ["x.org"]}, **TLS}},
    ),
    (
        "api.httpRoute.hostnames: is required",
        {"api": {"httpRoute": {"enabled": True, "parentRefs": [{"name": "x"}]}, **TLS}},
    ),
    (
        "api.ingress.weederHost: must differ from host: x.org cannot lead to both",
        {
            "api": {
                "ingress": {"enabled": True, "host": "x.org", "weederHost": "x.org"},
                **TLS,
            }
        },
    ),
    (
        "api.httpRoute.weederHostnames: must differ from hostnames: y.org cannot lead to both",
        {
            "api": {
                "httpRoute": {
                    "enabled": True,
                    "parentRefs": [{"name": "x"}],
                    "hostnames": ["x.org", "y.org"],
                    "weederHostnames": ["z.org", "y.org"],
                },
                **TLS,
            }
        },
    ),
    (
        "api.service.type: needs api.tls or api.plainHttp",
        {"api": {"service": {"type": "LoadBalancer"}}},
    ),
    (
        "prober.flags.dryRun: has no effect with mode serve, which would write",
        {"mode": "serve", "prober": {"flags": {"dryRun": True}}},
    ),
    (
        "serve.flags.dryRun: has no effect with mode separate, which would write",
        {"serve": {"flags": {"dryRun": True}}},
    ),
    (
        "serviceAccount.names.prober: must not be default",
        {"serviceAccount": {"names": {"prober": "default"}}},
    ),
    (
        "serviceAccount.names.weeder: must not be that of the prober, x",
        {"serviceAccount": {"names": {"prober": "x", "weeder": "x"}}},
    ),
    (
        "serviceAccount.names.weeder: must not be that of the prober, dependency-watchdog-weeder",
        {"serviceAccount": {"names": {"prober": "dependency-watchdog-weeder"}}},
    ),
    (
        "labels[dependency-watchdog.gardener.cloud/service]: is the chart's own",
        {"labels": {"dependency-watchdog.gardener.cloud/service": "metrics"}},
    ),
    (
        "labels[kubernetes.io/service-name]: is the chart's own",
        {"labels": {"kubernetes.io/service-name": "x"}},
    ),
    (
        "leaderElection.leaseDuration: must be between 1µs and 292 years, not 99999999999h",
        {"leaderElection": {"leaseDuration": "99999999999h"}},
    ),
    (
        "leaderElection: must fit: leaseDuration > renewDeadline > 1.2 × retryPeriod, not 15s, 10s and 8.33334s",
        {"leaderElection": {"retryPeriod": "8.33334s"}},
    ),
    (
        "prober.config.suspectProbeInterval: must be between 1µs and 292 years, not 99999999999h",
        {"prober": {"config": {"suspectProbeInterval": "99999999999h"}}},
    ),
    (
        "prober.config.maxProtectionDuration: must be at most 24h, not 99999999999h",
        {"prober": {"config": {"maxProtectionDuration": "99999999999h"}}},
    ),
    (
        "api.tls.certManager.duration: must be between 1µs and 292 years, not 99999999999h",
        {
            "api": {
                "tls": {
                    "certManager": {
                        "enabled": True,
                        "issuerRef": {"name": "x"},
                        "duration": "99999999999h",
                    }
                }
            }
        },
    ),
    *(
        (f"prober.pdb.{key}: would keep every node with one of the {pods} pods", pdb)
        for key, pods, pdb in [
            ("maxUnavailable", 2, budget(2, maxUnavailable=0)),
            ("maxUnavailable", 2, budget(2, maxUnavailable="0%")),
            ("minAvailable", 1, budget(1, minAvailable=1)),
            ("minAvailable", 2, budget(2, minAvailable="51%")),
            ("minAvailable", 2, budget(2, minAvailable=3)),
        ]
    ),
    (
        "metrics.podMonitor.enabled: must be false where metrics.serviceMonitor.enabled is true",
        {"metrics": {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}},
    ),
    (
        "metrics.serviceMonitor.authorization.name: is required with metrics.auth",
        {"metrics": {"auth": True, "serviceMonitor": {"enabled": True}}},
    ),
    (
        "metrics.podMonitor.authorization.name: is for metrics.auth only",
        {"metrics": {"podMonitor": {"enabled": True, "authorization": {"name": "x"}}}},
    ),
]


@pytest.mark.parametrize(
    ("sentence", "values"), TOGETHER, ids=[f"{n}-{each[0][:50]}" for n, each in enumerate(TOGETHER)]
)
def test_values_that_do_not_go_together_are_refused(
    render: Renderer, sentence: str, values: Json
) -> None:
    said = render.refusal(values=values)
    assert f"- {sentence}" in said
    assert said.count("\n- ") == 1, said


def test_all_mistakes_are_named_at_once(render: Renderer) -> None:
    said = render.refusal(
        values={
            "ports": {"health": 9643},
            "metrics": {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}},
            "prober": {"pdb": {"minAvailable": 1}},
        }
    )
    assert said.count("\n- ") == 3


def test_the_schema_is_asked_first_and_names_the_path(renders: Renderer) -> None:
    said = renders.refusal(values={"prober": {"config": {"probeInterval": "10"}}})
    assert "at '/prober/config/probeInterval'" in said
    assert renders.refusal(values={"proberr": {}}).count("'proberr'") == 1


def test_what_does_not_run_is_not_judged(render: Renderer) -> None:
    wrong = {"suspectProbeInterval": "1h", "dependentResourceInfos": None}
    assert render(values={"prober": {"enabled": False, "config": wrong}}).of("Deployment")
    alone = {"prober": {"replicas": 5}, "leaderElection": {"enabled": False}}
    serve = {"mode": "serve", "serve": {"replicas": 1}, **alone}
    assert render(values=serve).one("Deployment", "dependency-watchdog-serve")


@pytest.mark.parametrize(
    "values",
    [
        budget(2, minAvailable="50%"),
        budget(2, maxUnavailable="1%"),
        budget(3, minAvailable=2),
        budget(0, minAvailable=1),
    ],
)
def test_a_budget_that_lets_a_pod_go_is_taken(render: Renderer, values: Json) -> None:
    found = render(values=values).one("PodDisruptionBudget", "dependency-watchdog-prober")
    assert found["spec"].items() >= {k: v for k, v in values["prober"]["pdb"].items() if v}.items()


def test_a_release_whose_name_no_service_can_have_is_refused(render: Renderer) -> None:
    with pytest.raises(Failed, match="fullnameOverride: is required for a release with this name"):
        render(release="1st")
    assert render(release="1st", values={"fullnameOverride": "first"}).of("Service")


def test_several_dry_runs_need_no_election(render: Renderer) -> None:
    values = {"prober": {"replicas": 3}, "weeder": {"replicas": 2}}
    rendered = render(CHART / "ci/dry-run-values.yaml", values=values)
    assert {each["spec"]["replicas"] for each in rendered.of("Deployment")} == {2, 3}


@pytest.mark.parametrize(
    ("lease", "renew", "retry"),
    [("15s", "10s", "8.33s"), ("1s", "999ms", "100ms"), ("1h0m1s", "1h", "1m")],
)
def test_an_election_whose_times_just_fit_is_taken(
    render: Renderer, lease: str, renew: str, retry: str
) -> None:
    times = {"leaseDuration": lease, "renewDeadline": renew, "retryPeriod": retry}
    rendered = render(values={"leaderElection": times})
    assert f"--leader-elect-renew-deadline={renew}" in rendered.text or renew == "10s"
