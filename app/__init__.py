"""Dependency watchdog: keeps a seed's controllers from making an outage worse.

When the nodes of a shoot cannot reach their API server, their leases expire, kube-controller-manager marks every node
NotReady, and machine-controller-manager deletes healthy machines.  The prober sees it first, scales those controllers
to 0, and brings them back when the nodes are back.  The weeder restarts pods that wait in CrashLoopBackOff as soon as
the service that they depend on is ready again.  When they are unsure they do nothing, and say why.

Where to look:

- the verdict is made in `app.prober.rules.verdict`, from what `app.prober.rules.leases` says of each lease;
- why the last scale-down happened is in the history of the shoot (`GET /api/v1/shoots/NAMESPACE/history`), in an Event
  on the resource, and in the log, all of them from one notice (`app.prober.scaling_messages`);
- whether a pod is deleted is decided in `app.weeder.rules.deletion`, and why one was not is in
  `GET /api/v1/weeders/NAMESPACE/SERVICE`.

One lease, followed from its JSON to the Event:

    core.kube.decoding          raw JSON becomes a LeaseView: name, renewTime, duration
    prober.lease_probe          one probe: version, leases; nodes and machines where they could matter
    prober.rules.leases         learns its clock's offset, judges it Fresh, Expired or Unknown
    prober.rules.consecutive    counts it, if its node is a candidate (prober.rules.candidates)
    prober.rules.verdict        SCALE DOWN: 7 of 10 expired, limit 60 %; confirmed by a second reading
    prober.runner               acts on it, says when to probe again (prober.rules.schedule)
    prober.scaler, .resource    one scaling run over the levels, one merge patch a resource (prober.rules.scaling)
    prober.scaling_messages     one notice, for log, metrics, history and Event (core.reporting)

In endpoint mode `prober.path_probe` probes instead: `GET /version` by the internal and the external route, and
`prober.rules.paths` says what that means; from the verdict on it is the same way.  What endpoint probes find out
(`prober.endpoints`, by the rules of `prober.rules.endpoints`, through `core.handlers`) can hold back a scale-down:
`prober.rules.gates`.

One pod, followed from the EndpointSlice that brings its service back to its deletion:

    core.kube.decoding          raw JSON becomes a SliceView, and a PodView: its owner, which containers wait
    weeder.controller           the service was not ready and is (weeder.rules.readiness): a recovery begins
    weeder.registry             at once, or later where there were too many (weeder.rules.caps); one for each service
    weeder.recovery             one watch of the namespace's pods, for five minutes
    weeder.rules.deletion       Delete: kube-scheduler would wait 130 s more; or Keep, and why (weeder.rules.caps)
    weeder.turns                the pod's namespace waits for its turn: 20 deletions a second for all of them
    weeder.deletions            DELETE with the uid and resourceVersion that were judged
    weeder.messages             one notice, for log, metrics, history and Event (core.reporting)
"""
