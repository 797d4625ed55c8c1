"""The HTTP side: status, shoots and history for people and scripts, health, metrics.  Reads answer from memory."""
