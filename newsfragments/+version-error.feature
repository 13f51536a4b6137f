``acp_twisted.AcpVersionError`` says in words which versions of the protocol the agent speaks.
