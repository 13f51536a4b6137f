"""
Clients of protocol version 2, and of both versions.
"""
