"""Programs that measure: run as `python -m bench.<name>`."""
