"""The prober: probes each shoot, decides, and scales its controllers down and up again.

- Deciding: `rules` are pure functions; `verdicts` calls them with what was read, and confirms a scale-down.
- Probing: `runner` is the loop of one shoot. `lease_probe` and `path_probe` read the shoot through a `shoot_session`,
  which reads live what a stale watch may not know, and `probe_schedule` says when the next probe is due.
- Scaling: the package `scaling` makes at most one scaling run of a shoot at a time, level by level, and carries out
  what people ask for.
- All shoots: `registry` keeps the runners, `controller` starts and stops them as Clusters come and go.
- Reporting: `messages` and `scaling_messages` make the notices, `event_texts` their words for Events, `status` what the
  API shows.
- `environment`: what all runners share, the slots for probes among it.
- `endpoints`: endpoint probes and gates.
"""
