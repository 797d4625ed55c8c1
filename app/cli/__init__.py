"""The client: commands that ask a running watchdog through its REST API, and know nothing of it but its JSON.

    program     one command from start to end: streams, signals, exit code
    session     what every command works with; lists to their end, looks again and again
    reading, writing, waiting, following
                what each command asks for, and what it makes of the answer
    client      one request and its answer; goes on to the leader or the peer where it is told to
    ways        how a server is reached: as `--server` says, or through `kubectl port-forward` (portforward)
    origins     which address may be followed, and where a token may be sent; pure
    tokens      where the bearer token comes from
    answers     the JSON, as far as it is shown; what a newer server adds is passed over
    problems    an answer that is none: what to say, and with which exit code
    sse         the lines of an event stream, and the events that they make; pure
    views       shoots, scaling runs, recoveries, processes, events as lines for people; pure
    exits       exit codes, and the errors that carry them
    printing    lines, JSON or YAML, to a terminal, a file or a pipe

What a server says is shown without control characters (threat T13), and a token goes nowhere but into the header of a
request to where the operator, or the server that he named, said.
"""
