"""The command line's client: commands that call the REST API of a running watchdog, and depend only on its schemas.

    program     one command from start to end: files, streams, signals, exit code; the table of commands
    shoots, overrides, operations, weeders, process, events, api
                the commands of one subject: each a function that asks and returns its answer, and what people see
    page_proxy  `dwd page`; whom it serves is decided in page_gate
    session     what every command needs: answers that are read, complete lists, repeated display (`--watch`)
    client      requests and answers; redirection to the leader or the peer
    tokens      the source of the token
    kubectl     the operator's kubectl: it forwards a port, and asks the seed in their name
    transports  the ways to a server: `--server`, or `kubectl port-forward`; where a token may be sent
    answers     reads JSON into the API's schemas, whatever the version of the server
    problems    exit codes, and the errors that carry them, such as a problem in answer to a request
    tables      lines, tables and fields for people
    printing    output of lines, JSON or YAML to a terminal, a file or a pipe
    completion  of command lines in shells

Two guarantees: control characters in what a server sends never reach the terminal (threat T13), and a token is sent
only to the server that the operator named, or that this server named as leader or peer.
"""
