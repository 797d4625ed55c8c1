"""Scenarios: YAML files that describe what happens to a simulated seed and when (docs/demo.md).

model          the records of a scenario
actions        the actions of scenes, by name
scenario_file  finds a scenario, built in or in a file, loads it, and reports all mistakes at once
casting        the shoots that take part
player         plays a scenario on one world, or on several in step
"""
