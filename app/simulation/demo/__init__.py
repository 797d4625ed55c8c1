"""`dwd demo`: a simulated seed in this process, the unchanged program as a child process, and a terminal to watch both.

demo     the demo from start to end
child    the program: its process, which never outlives this one, its ports and its prober file
seed     the simulated seed, its twin (an identical world without a watchdog), and a host outside of it
witness  counts what becomes of the shoots of one world: nodes and machines that are lost, pods that recover
show     polls the program, follows the scenario, and says what happens
screens  shows it: on a terminal, and line by line where there is none
"""
