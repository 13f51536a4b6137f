"""
The C{acp-twisted} command.
"""
