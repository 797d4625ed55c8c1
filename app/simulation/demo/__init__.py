"""`dwd demo`: a simulated seed in this process, the unchanged program in another one, and a terminal to watch both.

addresses   which ports the program is told to serve on
child       the program, as a process that never outlives this one
proberfile  the configuration that a scenario wants of it: pure
canary      a host outside of the seed, for its probes
client      what the program says, over its REST API
seed        the simulated seed over HTTPS, and its twin without a watchdog
losses      what the simulated controllers did in either
pods        what became of the pods of the control planes in either
savings     the pods that the watchdog restarted, and the time that this saved: pure
gating      the shoots that a closed gate has kept from being scaled down: pure
rows        the shoots as a table: pure
telling     what happens, as lines: pure
picture     what there is to see at one instant
live, plain the two kinds of screen
demo        all of it together
"""
