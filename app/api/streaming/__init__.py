"""GET /api/v1/events: every change of a shoot, scaling run, recovery and override, as it happens.

    notices, watches, overrides     say which control plane may have changed (`EventStreams`)
    publisher                       renders those at most five times a second, each once for all streams
    changes, overrides              one class for each kind: what was told last, and what differs from that now
    core.reporting.changes          numbers and remembers what was told; a reader is a position in it
    stream                          one connection: where it begins, heartbeats, when it ends, and the format
                                    (https://html.spec.whatwg.org/multipage/server-sent-events.html)

While nobody listens nothing is rendered.  What a stream needs is bounded by what all of them share.
"""
