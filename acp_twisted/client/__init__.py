"""
The client half: what drives an agent.
"""
