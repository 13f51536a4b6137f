The first version: write agents with ``acp_twisted.AcpAgent``, drive agents with ``acp_twisted.AcpClient``, and run them
under ``twistd acp`` or inside an application of your own. It speaks the stable methods of protocol version 1 on standard
input and output and on any Twisted stream endpoint.
