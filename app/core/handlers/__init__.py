"""Runs endpoint probes as the kubelet runs its own: one run each, bounded in time, memory and connections.

- `handlers`      the adapter: finds a place for a run, ends it after `timeoutSeconds`, says how it ended
- `httpget`, `tcpsocket`, `grpchealth`, `execute`   one kind of handler each
- `running`       one run as it goes: what it means if its time is over now
- `places`        how many runs go on at once, fairly between namespaces
- `lookup`        names become addresses (`app.core.name_lookup`), in threads of the handlers' own
- `reasons`       what went wrong with a connection, in a few words

A target that refuses, is silent, has no address or answers wrongly has failed.  An error is what says nothing about the
target: a port name that its container has not got, a command that the API server does not run, no time left to try.
"""
