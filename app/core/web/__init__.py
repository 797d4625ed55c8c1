"""The process's HTTP servers: sockets, connection limits, TLS files."""
