"""Configuration: the two YAML files (`policy_files`), and the flags of each command (`settings`, `client_settings`)."""
