"""GET /api/v1/events: every change of a shoot, flow, recovery and override, as it happens.

    notices, watches, overrides     say which control plane may have changed (`EventStreams`)
    drawer                          looks at those at most five times a second, each once for all streams
    shoots, flows, ...              one for each kind: what was told last, and what differs from that now
    core.records.changes            numbers and remembers what was told; a reader is a place in it
    stream                          one connection: where it begins, heartbeats, when it ends
    wire                            the format (https://html.spec.whatwg.org/multipage/server-sent-events.html)

While nobody listens nothing is drawn.  What a stream needs is bounded by what all of them share.
"""
