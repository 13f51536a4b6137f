``AcpClient.builder().protocol_versions(2, 1)`` makes a client that speaks version 2 of the protocol, as of November 2026, and
settles for version 1 where the agent has no other; ``initialize()`` gives back a connection of the version that was agreed on.
A session of version 2 takes any number of prompts, each with Deferreds of its acceptance and of the end of its work.
