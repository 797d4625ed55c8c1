"""The prober: probes each shoot, decides, and scales its controllers down and up again.

- Deciding: `rules` are pure functions; `verdicts` calls them with what was read, and confirms a scale-down.
- Probing: `runner` is the loop of one shoot. `lease_probe` and `path_probe` read the shoot through a `shoot_session`,
  which reads live what a stale watch may not know, and `probe_schedule` says when the next probe is due.
- Scaling: `scaler` starts at most one `scaling_run` of a shoot at a time; it takes the dependents level by level, each
  as one `resource` (`scaling_context` has what these share, `scaling_memory` what later runs have to know), and each
  write has to be allowed by the `run_guard`. `dependents` reads them for the API, `releases` ends what lasts too long.
- All shoots: `registry` keeps the runners, `controller` starts and stops them as Clusters come and go.
- People: `scale_requests` carries out ScaleRequests, `manual` checks, plans and shows them for the API.
- Reporting: `messages` and `scaling_messages` make the notices, `event_texts` their words for Events, `status` what the
  API shows.
- `environment`: what all runners share, the slots for probes among it.
- `endpoints`: endpoint probes and gates.
"""
