"""`dwd demo`: a simulated seed in this process, the unchanged program as a child process, and a terminal to watch both.

demo         the demo from start to end
child        the program: its process, which never outlives this one, its ports and its prober file
seed         the simulated seed, its twin (an identical world without a watchdog), and a host outside of it
program_api  calls the program's REST API
show         polls the program, follows the scenario, and updates the screen
screens      the screens for a terminal and for other outputs
wording      what a screen shows at one instant, and events as lines of text: pure
losses       nodes marked NotReady and machines deleted, in either world; what a closed gate has held back
pod_story    what happens to the pods of the control planes, in either world, and the time that their restart saved
"""
