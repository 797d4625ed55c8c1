"""Which probes the configuration asks for: the words of the label `probe`."""

from app.core.model.policy import ProberPolicy
from app.core.model.probing import Probe

LEASE_MODE = (Probe.API_SERVER, Probe.LEASE)
ENDPOINT_MODE = (Probe.INTERNAL, Probe.EXTERNAL)


def of_looks(policy: ProberPolicy) -> tuple[Probe, ...]:
    """Those that a look is made of."""
    return LEASE_MODE if policy.endpoint_mode is None else ENDPOINT_MODE


def of_shoots(policy: ProberPolicy) -> tuple[Probe, ...]:
    """Those that are made of each shoot: the runs of endpoint probes, too."""
    return (*of_looks(policy), *((Probe.ENDPOINT,) if policy.endpoint_probes else ()))
