Decorated classes take annotations of version 2: a method serves the versions whose classes it names, in unions both, and
all that the agent speaks if it names none; so a class may have two methods for one decorator, one for each version. New
are ``@login``, ``@accept_prompt``, ``@cancel_tool_call`` and ``@cancel_terminal``, parameters of ``Implementation``, and
``TurnResult`` and stop reasons as what a prompt's method returns.
