"""One router for each subject."""
