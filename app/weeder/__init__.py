"""The weeder: restarts what waits in CrashLoopBackOff as soon as the service that it depends on is ready again."""
