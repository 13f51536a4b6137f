Proxies: ``AcpProxy`` takes requests and notifications out of the stream between a client and an agent, to change them,
answer them or let them pass; what it does not touch keeps its bytes. ``Conductor`` runs a chain of proxies and an agent,
each of them a program or a part of the same process (``acp-twisted conductor``, ``twistd acp --proxy``). Cancellation
goes hop by hop, each with its own id.
