``acp_twisted.AcpResource`` serves an agent over Streamable HTTP and WebSocket on any path of any ``twisted.web`` site,
``acp_twisted.service.HttpAgentService`` on any endpoint, and ``twistd acp --listen-http`` from the command line, with HTTP/2
over TLS, checks of origins and hosts, bearer tokens or any ``twisted.cred`` checker, and a bound on everything.
