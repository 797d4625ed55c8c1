"""A simulated seed with its shoots, in process, for tests and for `dwd demo`.

`server` serves it as API servers, over HTTPS or in memory, and `process` connects the real adapters of one process to
those in memory (docs/decisions/0044), so that the loops run on it unchanged. Endpoint probes alone are simulated behind
their port (`handlers`).
It reads the time from a `Clock` only, so that it runs on virtual time if the event loop does. Begin with
`builders.World`: its `faults` break things, and its methods return the real state, whatever the servers show.
"""
