"""
Proxies between clients and agents, and the conductor that runs chains of them.
"""
