"""Dependency watchdog."""
