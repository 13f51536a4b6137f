``ClientSession.track()`` and ``AcpClientBuilder.track_sessions()`` give the picture of a session, put together from its
updates; ``acp_twisted.client.permissions`` has ready-made permission policies; ``LocalFiles`` and ``LocalTerminals`` serve
several directories, follow no symbolic link out of them, and kill what an agent leaves behind.
``acp_twisted.client.sync.AcpSyncClient`` is a client that blocks, for scripts and notebooks.
