"""Time, tasks, backoff, logs and metrics of the process."""
