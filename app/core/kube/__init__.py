"""The real clusters: the adapters of `app.core.ports`, opened on Kubernetes API servers.

From the bottom: `credentials` and `tls` say whom to speak to, `wire` connects, `client` speaks (`sender` sends its
`requests`, `answers` reads what comes back), `failures` and `translate` turn that into our own errors and records (both
pure).  On these stand `shoot` (the hot path) with `connector` (one for each kubeconfig), `seedapi` with `reflector`,
`resources` and `seed` (what is watched, read and written), `weederseed` with `podwatch` and `serviceindex` (the same
for the weeder), `probedpods` with `selectedpods` and `namespacedreplica` (the pods that are probed), `election`,
`access` and `events`.
"""
