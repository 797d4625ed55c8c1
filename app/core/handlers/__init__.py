"""Runs endpoint probes as the kubelet does: one run at a time, bounded in time, memory and connections.

- `handlers`      the adapter: finds a slot for a run, fairly between namespaces, ends it after `timeoutSeconds`, and
                  returns its result; tcpSocket, which is a connection and no more
- `http_get`, `grpc`, `exec`   one kind of handler each
- `runs`          one run in progress: what its result is if its time ends now; names and connections

A target that refuses, is silent, has no address or answers wrongly has failed. An error is a result that says nothing
about the target: its container has no port of this name, the API server does not run a command, there was no time left
to try.
"""
