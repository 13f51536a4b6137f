"""
The agent half of protocol version 2, and of both versions at once.  It is loaded for agents that ask for it.
"""
