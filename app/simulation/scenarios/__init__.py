"""What happens to a simulated seed, and when: a short YAML file, its reader, and the player (docs/demo.md).

model       a scenario as plain records
actions     what a scene can do to a world, by name
etcdoutage  the largest of them: an outage of etcd, as it runs through a control plane
reading     YAML text to a scenario, with all mistakes at once
library     the built-in scenarios
casting     which shoots there are
player      plays a scenario on one world, or on several at once
"""
