"""The prober: probes each shoot, decides, and scales its controllers down and up again.

- Probing: `runner` is the loop of one shoot, and its `_probe_once` the story of a probe. `lease_probe` and `path_probe`
  read the shoot, each in its mode; `shoot_probe` is what they have in common.
- Deciding: `rules` are pure functions; `rules.decision` makes a decision of a reading.
- Scaling: the package `scaling` makes at most one scaling run of a shoot at a time, level by level, and carries out
  what people ask for.
- All shoots: `registry` keeps the runners, `controller` starts and stops them as Clusters come and go.
- Reporting: `messages` and `scaling_messages` make the notices and their words for Events, `status` follows
  protection, and is what the API shows.
- `environment`: what all runners share, the slots for probes among it.
- `endpoints`: endpoint probes and gates.
"""
