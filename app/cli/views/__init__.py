"""Answers as lines for people; pure."""
