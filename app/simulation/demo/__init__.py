"""`dwd demo`: a simulated seed in this process, the unchanged program as a child process, and a terminal to watch both.

demo        the demo from start to end
child       the program: its process, which never outlives this one, its ports and its prober file
seed        the simulated seed, and its twin: an identical world without a watchdog
canary      a host outside the seed, for the program's endpoint probes
client      calls the program's REST API
show        polls the program, follows the scenario, and updates the screen
live, plain the screens for a terminal and for other outputs
telling     what a screen shows at one instant, and events as lines of text: pure
rows        the table of shoots: pure
losses      nodes marked NotReady and machines deleted, in either world
pods        what happens to the pods of the control planes, in either world
savings     the pods that the watchdog restarted, and the time that this saved: pure
gating      the shoots that only a closed gate kept from being scaled down: pure
"""
