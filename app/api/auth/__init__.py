"""Authentication and authorization of callers (docs/authentication.md); `gate` assembles them from the settings."""
