"""
What people test their own agents and clients with.

L{acp_twisted.testing.scripted_agent} is an agent that does what each prompt tells it to.
"""
