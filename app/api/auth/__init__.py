"""Who calls, and what they may do (api.md, "Who may call"): `gate` puts it together."""
