"""Adapters to Kubernetes API servers: the only code that speaks to one.

From the bottom up:

- `connections` (pools, the network below them, the bytes that answers may hold, what failures mean), `client`
  (requests, watches and WebSockets, under limits), `decoding` (pure: records of our own, with `nesting`);
- the shoots: `kubeconfig` (which credentials, servers and addresses are accepted), `shoot` (one for each kubeconfig;
  the hot path);
- the seed: `seed_api` (our identity, requests within budgets), `resources` (which kinds there are,
  and how each is watched), `reflector` (list and watch), `seed` (what the prober watches, reads and writes);
- the weeder: `weeder_view`; endpoint probes: `pods`;
- what people decide: `custom_objects` (Pauses and ScaleRequests);
- the process itself: `election` and `leader_slice`, `reviews` (permissions).
"""
