"""What the operator sets: the two files (`files`), flags and environment (`settings`), Go durations."""
