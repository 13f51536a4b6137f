"""
The steps of the cross-SDK suite: what each client and each agent is held to, and where one of them is known to differ.

C{steps} has the steps as data and what each must come to.  A client program follows them and prints what it sees, an
agent program does what the prompts say; both are written once for each SDK, and say nothing of who passes.  C{cells}
runs one client against one agent, and C{deviations} lists what others are known to fail.
"""
