``PromptContext`` and ``SyncPromptContext`` have ``plan()``, ``tool_call()``, ``read_file()``, ``try_read_file()``,
``write_file()``, ``ask_permission()``, ``ask_choice()`` and ``execute()``. Tool calls that are open when a turn is answered
are reported as failed before the answer.
