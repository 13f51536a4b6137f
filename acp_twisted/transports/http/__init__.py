"""
Messages over HTTP (protocol 5.2).
"""
