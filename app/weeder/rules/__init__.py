"""The weeder's decisions: pure functions of frozen facts."""
