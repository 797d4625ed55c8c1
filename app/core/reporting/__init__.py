"""What happened and what people decided."""
