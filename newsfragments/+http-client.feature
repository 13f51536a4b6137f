``AcpClient.connect`` and ``ClientService`` take the URL of a remote agent, or an ``AgentUrl`` with headers, TLS options and
cookies, and speak Streamable HTTP (HTTP/1.1 and HTTP/2) or WebSocket to it; ``acp-twisted prompt --connect`` does too.
