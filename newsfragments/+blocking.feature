``@blocking`` runs a handler of any method in the reactor's thread pool, for the builder and for classes, with a ``SyncAgentConnection`` that blocks where the connection returns Deferreds.
