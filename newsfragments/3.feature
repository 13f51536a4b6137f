Cancellation is complete: ``acp_twisted.CancellationSignal`` stops any request of either half,
``acp_twisted.current_token()`` gives every request's handler its token, and the manual has a table of every rule with the
tests that show it.
