"""The command line's client: commands that call the REST API of a running watchdog, and depend only on its JSON.

    program     one command from start to end: streams, signals, exit code
    session     what every command needs: complete lists, repeated display (`--watch`)
    reading, writing, following
                one function for each command: the request, and the presentation of its answer
    client      requests and answers; the source of the token; redirection to the leader or the peer
    transports  the ways to a server: `--server`, or `kubectl port-forward` (portforward); where a token may be sent
    answers     the parts of the API's JSON that are shown; ignores what a newer server adds
    problems    exit codes, and the errors that carry them, such as a problem in answer to a request
    views       shoots, scaling runs, recoveries, processes, events as lines for people; pure
    printing    output of lines, JSON or YAML to a terminal, a file or a pipe

Two guarantees: control characters in what a server sends never reach the terminal (threat T13), and a token is sent
only to the server that the operator named, or that this server named as leader or peer.
"""
