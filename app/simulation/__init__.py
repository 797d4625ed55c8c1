"""A simulated seed with its shoots, in process, for tests and for `dwd demo`.

It implements the protocols of `app.core.ports`, so that the loops run on it unchanged; `server` serves it over HTTPS
or in memory, and `process` has the real adapters of one process in memory.
It reads the time from a `Clock` only, so that it runs on virtual time if the event loop does. Begin with
`builders.World`: `faults` breaks things, and `truth` returns the real state, whatever the protocols show.
"""
