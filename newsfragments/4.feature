Agents can be written as classes: ``acp_twisted.agent.annotations`` has a decorator for every method of the protocol,
finds what to pass by the annotations of the parameters, and refuses mistakes when ``build_agent()`` makes the agent.
``acp_twisted.agent.annotations.Interceptor`` stands around every method, and exceptions are mapped in one place.
