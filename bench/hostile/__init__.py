"""Hostile shoots: API servers that answer with what no API server would, to see what that costs everybody else."""
