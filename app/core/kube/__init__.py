"""Adapters to Kubernetes API servers: the implementation of `app.core.ports`.

From the bottom up:

- `connections` (pools), `client` (requests, watches, WebSockets), `responses` (reads answers under limits, with
  `byte_budget`), `failures` and `decoding` (pure: errors and records of our own, with `nesting`);
- the shoots: `kubeconfig` (parses credentials), `addresses` (which servers may be reached), `connector` (one `shoot`
  for each kubeconfig; the hot path);
- the seed: `seed_credentials` (our identity), `seed_api` (requests within budgets), `resources` (discovery),
  `reflector` with `replica` and `sources` (list and watch), `seed` (what the prober watches, reads and writes);
- the weeder: `weeder_view` and `pod_watches`; endpoint probes: `selected_pods` with `replica`, and `pod_exec`;
- what people decide: `custom_objects` (Pauses and ScaleRequests);
- the process itself: `election_lease`, `election` and `leader_slice`, `access` and `reviews` (permissions),
  `event_sink`.
"""
