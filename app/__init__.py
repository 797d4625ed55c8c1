"""Dependency watchdog: keeps a seed's controllers from making an outage worse.

When the nodes of a shoot cannot reach their API server, their leases expire, kube-controller-manager marks every node
NotReady, and machine-controller-manager deletes healthy machines. The prober notices first: it scales those
controllers to 0, and restores them when the nodes are back. The weeder restarts pods that wait in CrashLoopBackOff as
soon as the service that they depend on is ready again. When either is unsure it does nothing, and says why.

Where to start:

- The verdict is made in `app.prober.rules.verdict`, from the state that `app.prober.rules.leases` gives each lease.
- Why the last scale-down happened is in the history of the shoot (`GET /api/v1/shoots/NAMESPACE/history`) and in the
  log, and its numbers in the Event `MeltdownProtectionStarted` on the first dependent. Each thing that happens is one
  notice (`app.prober.messages`), of which log, metrics, history and Event are made.
- Whether a pod is deleted is decided in `app.weeder.rules`; why a pod was kept is in
  `GET /api/v1/weeders/NAMESPACE/SERVICE`.

The path of one lease, from its JSON to the Event:

    core.kube.client            sends the request on a connection of the shoot's, and reads the answer under limits
    core.kube.decoding          decodes raw JSON to a LeaseView: name, renewTime, duration
    prober.runner               probes, decides, confirms, applies and schedules: `ShootRunner._probe_once` is the story
    prober.shoot_probe          makes one probe: version, Leases; Nodes and Machines where they could matter
    prober.rules.leases         learns the offset of the node's clock, judges the lease Fresh, Expired or Unknown
    prober.rules.candidates     counts the lease, if its node is a candidate
    prober.rules.verdict        decides: SCALE DOWN, 7 of 10 expired, limit 60 %; with the plan of what would be
                                written. A second reading has to confirm it
    prober.rules.schedule       says when to look again
    prober.scaling              makes one scaling run, level by level, one merge patch a resource (prober.rules.scaling)
    core.kube.seed              sends the patch (core.kube.seed_api: its turn among the seed's requests)
    prober.status               sees that protection has begun (`ProtectionWatch`), and has that reported
    prober.messages             publishes a notice for log, metrics, history and Event (core.reporting): `ScaledDown` of
                                a resource once its pods are gone

In endpoint mode the probe is `GET /version` by the internal and the external route (`PathProbe`);
`prober.rules.paths` says what the result means. From the verdict on everything is the same. Endpoint probes
(`prober.endpoints`, `prober.rules.probe_worker`, `core.handlers`) can hold back a scale-down: `prober.rules.gates`.

The path of one pod, from the EndpointSlice that shows its service ready again to its deletion:

    core.kube.reflector         lists and watches; tells `weeder_view` of each slice and pod that has changed
    core.kube.decoding          decodes raw JSON to a SliceView, and to a PodView: its owner, which containers wait
    weeder.controller           sees that the service has become ready (weeder.rules): a recovery begins
    weeder.recovery             starts it at once, or later after too many, one for each service; it watches the pods
                                of the namespace, for five minutes
    weeder.rules                decides: Delete, as its back-off lasts 130 s more; or Keep, and why
    weeder.deletions            waits for the namespace's turn: 20 deletions a second in all
    weeder.recovery             sends DELETE with the uid and resourceVersion that were judged, unless something
                                forbids it right before (RecoveryRunner._check_may_send)
    weeder.messages             publishes a notice for log, metrics, history and Event (core.reporting)
"""

from typing import Final

NAME: Final = "dependency-watchdog"


def own_version() -> str:
    """Returns the version of the installed package; `unknown` in a bare checkout."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - few commands need it

    try:
        return version(NAME)
    except PackageNotFoundError:
        return "unknown"
