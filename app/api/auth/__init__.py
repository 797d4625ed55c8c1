"""Who calls, and what they may do: `gate` puts it together."""
