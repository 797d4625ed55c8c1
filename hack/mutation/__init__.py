"""Reports of mutation runs."""
