"""Our HTTP servers: sockets, limits of connections, TLS files."""
