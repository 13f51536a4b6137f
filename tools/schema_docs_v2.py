"""
What the classes of protocol version 2 are, in our own words, where version 1 has none of that name or means something
else by it.
"""

from __future__ import annotations

PATCH = "C{UNSET} leaves a member as it is, L{None} clears it, and what is in C{meta} goes in key by key."

DOCS_V2: dict[str, str] = {
    # ---- initialize
    "ClientCapabilities": "What a client offers to agents, and its user's ways to answer them.",
    "ClientAuthCapabilities": "Which ways to authenticate the client can run.",
    "TerminalAuthCapabilities": "The client can run the agent's program in a terminal, for its user to log in.",
    "AgentCapabilities": "What an agent can do.  Without C{session} it has no sessions.",
    "PromptCapabilities": "Which content, besides text and links, an agent takes in a prompt: what is there it takes.",
    "PromptImageCapabilities": "The agent takes images.",
    "PromptAudioCapabilities": "The agent takes sound.",
    "PromptEmbeddedContextCapabilities": "The agent takes embedded resources.",
    "McpCapabilities": "Over which transports an agent can reach MCP servers: what is there it can.",
    "McpStdioCapabilities": "The agent starts MCP servers as programs.",
    "McpHttpCapabilities": "The agent reaches MCP servers behind HTTP.",
    "McpAcpCapabilities": "The agent reaches MCP servers that the client serves, through this connection.",
    "SessionCapabilities": (
        "The agent has sessions: new, list, resume, close, prompt and cancel are in it, and the rest is named."
    ),
    "AgentAuthCapabilities": "What an agent can do about authentication beyond logging in and out.",
    # ---- authentication
    "LoginAuthRequest": "Authenticate in one of the ways that the agent named.",
    "LoginAuthResponse": "The authentication worked.",
    "LogoutAuthRequest": "Forget the credentials.",
    "LogoutAuthResponse": "The credentials are forgotten.",
    # ---- sessions
    "NewSessionResponse": "The new session's id, its settings and its commands.",
    "ForkSessionResponse": "The copy's id, its settings and its commands.",
    "ResumeSessionRequest": (
        "Take up an earlier session; C{replay_from} has its history sent as updates before the answer."
    ),
    "ResumeSessionResponse": "The session can go on; its state was reported before this.",
    "ReplayFromStart": "The whole history is to be replayed.",
    "SessionStatusResponse": "Whether the session is open, and what it is doing if it is.",
    "SetSessionConfigOptionRequest": (
        "Change a setting of a session: C{type} is C{id} for the id of a listed value, C{boolean} for on or off; of "
        "other types, C{extra} holds what else they bring."
    ),
    "CancelToolCallRequest": "Stop one tool call, which said that it can be stopped.",
    "CancelToolCallResponse": "The tool call is told to stop; that it has, its last update will say.",
    "CancelTerminalRequest": "Stop the command of one terminal, which said that it can be stopped.",
    "CancelTerminalResponse": "The command is told to stop; that it has, its exit status will say.",
    # ---- prompts and content
    "PromptRequest": "What the user says.  Its answer says that it is part of the conversation, not that work is done.",
    "PromptResponse": (
        "The message is part of the conversation, under this id, which only peers of the draft of August 2026 leave "
        "out."
    ),
    "CancelSessionNotification": "Stop the foreground work of a session, and drop the prompts that it still holds.",
    "Icon": "A picture that stands for something.",
    # ---- session updates
    "UpdateSessionNotification": "Something happened in a session.",
    "UserMessage": f"What the user said, by the id of the message: {PATCH}",
    "AgentMessage": f"What the agent said, by the id of the message: {PATCH}",
    "AgentThought": f"What the agent thought aloud, by the id of the message: {PATCH}",
    "RunningStateUpdate": "The session is at work.",
    "IdleStateUpdate": (
        "The session is at rest; C{stop_reason} tells why, where there is a reason.  C{background} lists what goes on "
        "all the same; L{None} says nothing of it."
    ),
    "RequiresActionStateUpdate": "The session waits for its user.",
    "BackgroundTerminal": "A terminal whose command goes on in the background.",
    "BackgroundToolCall": "A tool call that goes on in the background.",
    "BackgroundSubagent": "A subagent's session that goes on in the background.",
    "ToolCallUpdate": (
        f"What has changed about a tool call, or that there is one: {PATCH}  A list that is there replaces the whole "
        "list."
    ),
    "ToolCallCapabilities": "What a client may do with a tool call.",
    "ToolCallCancelCapabilities": "The tool call can be stopped.",
    "ToolCallContentChunk": "One more piece of what a tool call gave.",
    "TerminalUpdate": (
        f"What has changed about a terminal of the agent's, or that there is one: {PATCH}  C{{output}} replaces all "
        "output, and an C{exit_status} says that the command has ended."
    ),
    "TerminalOutput": "All that a command has written, in base64.",
    "TerminalOutputChunk": "What a command has written since, in base64: decode it, then append its bytes.",
    "TerminalSize": "The columns and rows that a command runs with.",
    "TerminalCapabilities": "What a client may do with a terminal.",
    "TerminalCancelCapabilities": "The terminal's command can be stopped.",
    "Terminal": "A terminal of the agent's, shown within a tool call.",
    "Diff": "What a tool call changed in files: the changes, and perhaps a patch that makes them.",
    "DiffPatch": "Changes as text.",
    "DiffPathChange": "A change of one file.  On the wire it is always one of the three classes below it.",
    "DiffAdd": "A file came to be.",
    "DiffDelete": "A file was deleted.",
    "DiffModify": "A file was changed.",
    "DiffPathPairChange": "A change of two paths.  On the wire it is always one of the two classes below it.",
    "DiffMove": "A file was moved or renamed.",
    "DiffCopy": "A file was copied.",
    "PlanUpdate": "One plan, by its id, which this replaces.",
    "Command": "One slash command.",
    "TextCommandInput": "The command takes any text that follows its name.",
    "SessionInfoUpdate": f"The session's title or date has changed: {PATCH}",
    "UsageUpdate": (
        "How much of its context window a session uses, and what it has cost: C{UNSET} leaves the cost as it is, "
        "L{None} clears it."
    ),
    "CompactionUpdate": f"The state of one compaction of the session's history: {PATCH}",
    "SubagentUpdate": f"What has changed about a subagent's session: {PATCH}",
    "SessionMessage": f"A message from one session to another: {PATCH}",
    # ---- what an agent asks of its client
    "RequestPermissionRequest": "May the agent do this?  The user picks one of the options.  C{subject} is what it is.",
    "ToolCallPermissionSubject": "The agent asks about a tool call, which this also updates.",
    "CommandPermissionSubject": "The agent asks about a command.",
    "CancelledPermissionOutcome": "Nobody decided: the work was cancelled, or the user looked away.",
    # ---- errors
    "UnsupportedProtocolVersionErrorData": "The data of an error: the version asked for, and those that there are.",
    "SessionNotFoundErrorData": "The data of an error: the session that there is none of.",
}
