``august_draft()`` of either builder takes what only version 2's draft of August 2026 allows: JSON-RPC batches, answered by one array, and requests whose id is null.
