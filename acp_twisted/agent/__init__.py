"""
The agent half: what people write agents with.
"""
