"""GET /api/v1/events: changes of shoots, scaling runs, recoveries and overrides as server-sent events.

The stream is level-triggered. A notice, a watch or an override only signals that something may have changed; the
publisher then renders the current state, compares it with what it published last, and publishes the difference.

    streams                         accepts connections, limits their number, ends them; forwards signals
    publisher                       collects signals, and renders what they name at most five times a second
    changes, overrides              one class for each kind of event: the state last published, and what differs now
    core.reporting.changes          the feed: numbers and keeps published events; a reader is a position in it
    stream                          one connection: its start, heartbeats, end, and the format
                                    (https://html.spec.whatwg.org/multipage/server-sent-events.html)

All streams share each rendered event, so that a further stream costs a position and what its socket buffers. While
nobody listens nothing is rendered.
"""
