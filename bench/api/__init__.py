"""What the port of the API withstands, measured."""
