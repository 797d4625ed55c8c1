"""What the operator sets: the prober file (`files`), flags and environment (`settings`), Go durations."""
