"""The prober: probes each shoot, decides, and scales its controllers down and up again.

- Probing: `runner` is the loop of one shoot, and its `_probe_once` the story of a probe. `shoot_probe` reads the shoot,
  in lease mode or in endpoint mode.
- Deciding: `rules` are pure functions; `rules.verdict` makes a decision of a reading, with its plan.
- Scaling: the package `scaling` makes at most one scaling run of a shoot at a time, level by level, and carries out
  what people ask for.
- All shoots: `registry` keeps the runners, `controller` starts and stops them as Clusters come and go.
- Reporting: `messages` makes the notices and their words for Events, `status` follows protection, and is what the API
  shows.
- `environment`: what all runners share, the limits of all among it.
- `endpoints`: endpoint probes and gates.
"""
