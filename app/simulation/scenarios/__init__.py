"""Scenarios: YAML files that describe what happens to a simulated seed and when (docs/demo.md).

model       the records of a scenario
actions     the actions of scenes, by name
etcdoutage  the most complex action: an outage of etcd that spreads through a control plane
reading     parses YAML text into a scenario, and reports all mistakes at once
library     the built-in scenarios
casting     the shoots that take part
player      plays a scenario on one world, or on several in step
"""
