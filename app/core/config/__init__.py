"""Configuration: the two YAML files (`files`), the flags and environment variables of each command (`settings`)."""
