"""Scenarios: YAML files that describe what happens to a simulated seed and when (docs/demo.md).

actions   the actions of scenes, by name
scenario  the records of a scenario and its shoots; finds one, built in or in a file, and reports all mistakes at once
player    plays a scenario on one world, or on several in step
"""
