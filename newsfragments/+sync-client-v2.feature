``AcpSyncClient.connect()`` takes clients of version 2, and of both versions, and gives back the blocking client of the
version that was agreed on: ``accepted()``, the updates and ``result()`` of a prompt, several prompts of a session at once,
``when_idle()``, and everything else that the connection of version 2 has. The blocking clients of both versions have
``unstable``, ``close_session()`` and ``require_session()``.
