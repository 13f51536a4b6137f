"""
What a prompt turn is: its states, its timers and its one answer.  Nothing here knows a transport or JSON-RPC.
"""
