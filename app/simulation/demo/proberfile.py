"""The prober file that a scenario wants: the shipped one, changed where that is not enough; pure."""

from typing import Any, Final

import yaml

from app.simulation.manifests import EXTERNAL_SECRET_NAME, SECRET_NAME
from app.simulation.scenarios.model import Mode, Scenario

_OF_LEASE_MODE: Final = frozenset(
    {"kubeConfigSecretName", "nodeLeaseFailureFraction", "failureThreshold", "successThreshold"}
)
"""Of the thresholds each mode has its own defaults."""
_ROUTES: Final = {
    "internalKubeConfigSecretName": SECRET_NAME,
    "externalKubeConfigSecretName": EXTERNAL_SECRET_NAME,
}
CANARY: Final = "outside-of-the-seed"
_FASTER_THAN_A_VERDICT: Final = {
    "periodSeconds": 2,
    "timeoutSeconds": 1,
    "failureThreshold": 2,
    "successThreshold": 3,
}
"""It is closed within 5 s; three failures in a row take 10 s at least.  It opens when all has been well for 6 s."""


def is_as_shipped(scenario: Scenario) -> bool:
    """Whether the file that comes with the program will do."""
    return scenario.mode is Mode.LEASE and not scenario.canary


def prober_file(shipped: str, mode: Mode, canary: tuple[str, int] | None) -> str:
    """The text of the file.

    Args:
        shipped: the text of the one that comes with the program.
        mode: how shoots are to be looked at.
        canary: host and port of what closes the gate while it does not answer; None: there is no gate.
    """
    given: dict[str, Any] = yaml.safe_load(shipped)
    if mode is Mode.ENDPOINT:
        given = {key: value for key, value in given.items() if key not in _OF_LEASE_MODE}
        given = {**_ROUTES, **given}
    if canary is not None:
        given["endpointProbes"] = [_gate(*canary)]
    return yaml.safe_dump(given, sort_keys=False)


def _gate(host: str, port: int) -> dict[str, Any]:
    return {
        "name": CANARY,
        "host": host,
        "httpGet": {"port": port},
        "effect": "GateScaleDown",
        **_FASTER_THAN_A_VERDICT,
    }
