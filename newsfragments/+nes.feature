``acp_twisted.nes``, an optional and unstable module: next edit suggestions and the events of documents, for agents (``serve_nes``) and clients (``offer_nes``, ``Nes``).
