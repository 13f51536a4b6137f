``acp_twisted.schema.forms`` says whether what a user filled in fits the form that he was given (``problems_of``), and what a form begins with (``defaults_of``).
