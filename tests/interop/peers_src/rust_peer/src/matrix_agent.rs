//! The agent of the cross-SDK suite (`interop.matrix.steps`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AuthenticateRequest, AuthenticateResponse, CancelNotification, CloseSessionRequest, CloseSessionResponse,
    CompleteElicitationNotification, ContentBlock, CreateElicitationRequest, CreateTerminalRequest,
    DeleteSessionRequest, DeleteSessionResponse, InitializeRequest, InitializeResponse, KillTerminalRequest,
    ListSessionsRequest, ListSessionsResponse, LoadSessionRequest, LoadSessionResponse, LogoutRequest, LogoutResponse,
    NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse, ReadTextFileRequest, ReleaseTerminalRequest,
    RequestPermissionRequest, ResumeSessionRequest, ResumeSessionResponse, SessionId, SessionNotification,
    SetSessionConfigOptionRequest, SetSessionConfigOptionResponse, SetSessionModeRequest, SetSessionModeResponse,
    TerminalOutputRequest, WaitForTerminalExitRequest, WriteTextFileRequest,
};
use agent_client_protocol::{Agent, ByteStreams, Client, Error, Result, UntypedMessage};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};
use tokio_util::sync::CancellationToken;

fn made<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(Error::into_internal_error)
}

struct Session {
    model: String,
    brave: bool,
    stop: CancellationToken,
}

#[derive(Default)]
struct Matrix {
    sessions: HashMap<SessionId, Session>,
    capabilities: Value,
    note: Value,
}

type Shared = Arc<Mutex<Matrix>>;

impl Matrix {
    fn options(&self, session: &SessionId) -> Value {
        let session = &self.sessions[session];
        let mut found = vec![json!({
            "id": "model", "name": "Model", "type": "select", "currentValue": session.model,
            "options": [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large"}]
        })];
        if self.capabilities.pointer("/session/configOptions/boolean").is_some_and(Value::is_object) {
            found.push(json!({"id": "brave", "name": "Brave", "type": "boolean", "currentValue": session.brave}));
        }
        json!(found)
    }

    fn open(&mut self, id: SessionId) -> Value {
        let session = Session { model: "small".into(), brave: false, stop: CancellationToken::new() };
        self.sessions.insert(id.clone(), session);
        json!({
            "modes": {
                "currentModeId": "ask",
                "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]
            },
            "configOptions": self.options(&id)
        })
    }

    fn hello(&mut self, request: &InitializeRequest) -> Result<InitializeResponse> {
        self.capabilities = json!(request)["clientCapabilities"].clone();
        let mut methods = vec![json!({"id": "matrix-login", "name": "Log in"})];
        if self.capabilities.pointer("/auth/terminal") == Some(&json!(true)) {
            methods.push(json!({"id": "matrix-terminal", "name": "Log in there", "type": "terminal", "args": ["login"]}));
        }
        made(json!({
            "protocolVersion": 1,
            "agentInfo": {"name": "matrix", "version": "1"},
            "authMethods": methods,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {"image": true, "embeddedContext": true},
                "mcpCapabilities": {"http": true},
                "sessionCapabilities": {"list": {}, "delete": {}, "resume": {}, "close": {}},
                "auth": {"logout": {}}
            }
        }))
    }
}

struct Turn<'a> {
    request: &'a PromptRequest,
    cx: &'a ConnectionTo<Client>,
    matrix: &'a Shared,
    stop: CancellationToken,
}

impl Turn<'_> {
    fn update(&self, update: Value) -> Result<()> {
        let notification: SessionNotification =
            made(json!({"sessionId": self.request.session_id, "update": update}))?;
        self.cx.send_notification(notification)
    }

    fn say(&self, text: impl Into<String>) -> Result<()> {
        self.update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text.into()}}))
    }

    fn params(&self, params: Value) -> Value {
        let mut params = params;
        params["sessionId"] = json!(self.request.session_id);
        params
    }

    async fn read(&self, params: Value) -> Result<()> {
        let request: ReadTextFileRequest = made(self.params(params))?;
        match self.cx.send_request(request).block_task().await {
            Ok(answer) => self.say(answer.content),
            Err(error) => self.say(format!("error {}", i32::from(error.code))),
        }
    }

    async fn elicit(&self, mode: Value) -> Result<()> {
        let request: CreateElicitationRequest = made(self.params(mode))?;
        let answer = self.cx.send_request(request).block_task().await?;
        self.say(json!(answer).to_string())
    }

    /// What the first word says; the stop reason, if it is another than `end_turn`.
    #[allow(clippy::too_many_lines)]
    async fn play(&self) -> Result<Value> {
        let text: String = self
            .request
            .prompt
            .iter()
            .filter_map(|block| if let ContentBlock::Text(text) = block { Some(text.text.as_str()) } else { None })
            .collect();
        let (first, rest) = text.split_once(' ').unwrap_or((&text, ""));
        let words: Vec<&str> = rest.split(' ').collect();
        match first {
            "say" => self.say(rest)?,
            "len" => self.say((first.len() + 1 + rest.len()).to_string())?,
            "big" => self.say("x".repeat(rest.parse().unwrap()))?,
            "stop" => return Ok(json!({"stopReason": rest})),
            "echo-caps" => {
                let known = self.matrix.lock().unwrap().capabilities.to_string();
                self.say(known)?;
            }
            "meta" => {
                let meta = json!(self.request.meta);
                self.say(meta.to_string())?;
                return Ok(json!({"stopReason": "end_turn", "_meta": meta}));
            }
            "slow" => {
                for n in 0..200 {
                    if self.stop.is_cancelled() {
                        return Ok(json!({"stopReason": "cancelled"}));
                    }
                    self.say(format!("tick {n} "))?;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            "permission" => {
                let request: RequestPermissionRequest = made(self.params(json!({
                    "toolCall": {"toolCallId": "t1", "title": rest, "kind": "edit", "status": "pending"},
                    "options": [
                        {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
                        {"optionId": "reject", "name": "Reject", "kind": "reject_once"}
                    ],
                    "_meta": {"matrix": true}
                })))?;
                let outcome = json!(self.cx.send_request(request).block_task().await?.outcome);
                self.say(outcome.to_string())?;
                if outcome["outcome"] == "cancelled" {
                    return Ok(json!({"stopReason": "cancelled"}));
                }
            }
            "fs-read" => {
                let mut params = json!({"path": words[0]});
                if words.len() > 2 {
                    params["line"] = json!(words[1].parse::<u32>().unwrap());
                    params["limit"] = json!(words[2].parse::<u32>().unwrap());
                }
                self.read(params).await?;
            }
            "fs-slow" => {
                let request: ReadTextFileRequest = made(self.params(json!({"path": rest})))?;
                let sent = self.cx.send_request(request);
                let handle = sent.cancellation_handle();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    handle.cancel()
                });
                match sent.block_task().await {
                    Ok(answer) => self.say(answer.content)?,
                    Err(error) => self.say(format!("error {}", i32::from(error.code)))?,
                }
            }
            "fs-write" => {
                let request: WriteTextFileRequest =
                    made(self.params(json!({"path": words[0], "content": words[1..].join(" ")})))?;
                self.cx.send_request(request).block_task().await?;
                self.say("written")?;
            }
            "term-run" | "term-kill" => {
                let params = if first == "term-run" {
                    json!({"command": "/bin/sh", "args": ["-c", rest]})
                } else {
                    json!({"command": "sleep", "args": ["60"]})
                };
                let request: CreateTerminalRequest = made(self.params(params))?;
                let id = self.cx.send_request(request).block_task().await?.terminal_id;
                let named = self.params(json!({"terminalId": id}));
                if first == "term-kill" {
                    self.cx.send_request(made::<KillTerminalRequest>(named.clone())?).block_task().await?;
                }
                let ended = self.cx.send_request(made::<WaitForTerminalExitRequest>(named.clone())?).block_task().await?;
                let shown = self.cx.send_request(made::<TerminalOutputRequest>(named.clone())?).block_task().await?;
                self.cx.send_request(made::<ReleaseTerminalRequest>(named)?).block_task().await?;
                self.say(if first == "term-kill" {
                    "killed".into()
                } else {
                    json!({"output": shown.output, "exitCode": json!(ended)["exitCode"]}).to_string()
                })?;
            }
            "elicit-form" => {
                let wanted = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
                self.elicit(json!({"message": "Who are you?", "mode": "form", "requestedSchema": wanted})).await?;
            }
            "elicit-url" => {
                let url = "http://127.0.0.1/matrix";
                self.elicit(json!({"message": "Look", "mode": "url", "elicitationId": "matrix-1", "url": url})).await?;
                let done: CompleteElicitationNotification = made(json!({"elicitationId": "matrix-1"}))?;
                self.cx.send_notification(done)?;
            }
            "ext-request" => {
                let answer = self.cx.send_request(UntypedMessage::new("_matrix/echo", json!({"x": 1}))?).block_task().await?;
                self.say(answer.to_string())?;
            }
            "ext-notify" => self.cx.send_notification(UntypedMessage::new("_matrix/note", json!({"y": 2}))?)?,
            "ext-last" => {
                let note = self.matrix.lock().unwrap().note.to_string();
                self.say(note)?;
            }
            "emit" => self.emit(rest)?,
            "enum" => self.update(match rest {
                "tool_call" => json!({
                    "sessionUpdate": rest, "toolCallId": "t2", "title": "odd", "kind": "matrix_odd", "status": "matrix_odd"
                }),
                "plan" => json!({
                    "sessionUpdate": rest,
                    "entries": [{"content": "odd", "priority": "matrix_odd", "status": "matrix_odd"}]
                }),
                _ => json!({
                    "sessionUpdate": "agent_message_chunk",
                    "content": {"type": "text", "text": "odd", "annotations": {"audience": ["matrix_odd", "user"]}}
                }),
            })?,
            other => return Err(Error::invalid_params().data(json!({"directive": other}))),
        }
        Ok(json!({"stopReason": "end_turn"}))
    }

    fn emit(&self, kind: &str) -> Result<()> {
        let text = json!({"type": "text", "text": "matrix"});
        let mut update = match kind {
            "agent_message_chunk" | "user_message_chunk" | "agent_thought_chunk" => json!({"content": text}),
            "tool_call" => json!({"toolCallId": "t1", "title": "matrix", "kind": "search", "status": "in_progress"}),
            "tool_call_update" => json!({"toolCallId": "t1", "status": "completed"}),
            "plan" => json!({"entries": [{"content": "matrix", "priority": "high", "status": "pending"}]}),
            "available_commands_update" => {
                json!({"availableCommands": [{"name": "matrix", "description": "A command"}]})
            }
            "current_mode_update" => json!({"currentModeId": "code"}),
            "config_option_update" => json!({"configOptions": []}),
            "session_info_update" => json!({"title": "matrix"}),
            "usage_update" => json!({"used": 10, "size": 1000}),
            _ => {
                let params = self.params(json!({"update": {"sessionUpdate": "matrix_unknown", "payload": {"kept": 1}}}));
                return self.cx.send_notification(UntypedMessage::new("session/update", params)?);
            }
        };
        update["sessionUpdate"] = json!(kind);
        self.update(update)
    }
}

#[allow(clippy::too_many_lines)]
pub async fn serve() -> Result<()> {
    let matrix = Shared::default();
    macro_rules! with {
        (|$shared:ident, $request:ident: $kind:ty| $body:expr) => {{
            let shared = matrix.clone();
            async move |$request: $kind, responder, _cx| {
                let $shared = &shared;
                responder.respond_with_result($body)
            }
        }};
    }
    let prompting = matrix.clone();
    let (cancelling, noting) = (matrix.clone(), matrix.clone());
    let loading = matrix.clone();
    Agent
        .v1()
        .name("matrix")
        .on_receive_request(
            with!(|shared, request: InitializeRequest| shared.lock().unwrap().hello(&request)),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            with!(|_shared, _request: AuthenticateRequest| made::<AuthenticateResponse>(json!({}))),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            with!(|_shared, _request: LogoutRequest| made::<LogoutResponse>(json!({}))),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            with!(|shared, _request: NewSessionRequest| {
                let mut matrix = shared.lock().unwrap();
                let id = SessionId::from(format!("matrix-{}", matrix.sessions.len()));
                let mut opened = matrix.open(id.clone());
                opened["sessionId"] = json!(id);
                made::<NewSessionResponse>(opened)
            }),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: LoadSessionRequest, responder, cx| {
                let opened = loading.lock().unwrap().open(request.session_id.clone());
                let update = json!({
                    "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "earlier"}
                });
                cx.send_notification(made::<SessionNotification>(
                    json!({"sessionId": request.session_id, "update": update}),
                )?)?;
                responder.respond_with_result(made::<LoadSessionResponse>(opened))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            with!(|shared, request: ResumeSessionRequest| {
                made::<ResumeSessionResponse>(shared.lock().unwrap().open(request.session_id))
            }),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            with!(|_shared, _request: ListSessionsRequest| {
                made::<ListSessionsResponse>(json!({"sessions": [{"sessionId": "stored", "cwd": "/"}]}))
            }),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            with!(|shared, request: CloseSessionRequest| {
                if let Some(session) = shared.lock().unwrap().sessions.remove(&request.session_id) {
                    session.stop.cancel();
                }
                made::<CloseSessionResponse>(json!({}))
            }),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            with!(|shared, request: DeleteSessionRequest| {
                shared.lock().unwrap().sessions.remove(&request.session_id);
                made::<DeleteSessionResponse>(json!({}))
            }),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            with!(|_shared, _request: SetSessionModeRequest| made::<SetSessionModeResponse>(json!({}))),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            with!(|shared, request: SetSessionConfigOptionRequest| {
                let mut matrix = shared.lock().unwrap();
                let value = json!(request)["value"].clone();
                let session = matrix.sessions.get_mut(&request.session_id).unwrap();
                match value {
                    Value::Bool(brave) => session.brave = brave,
                    other => session.model = other.as_str().unwrap_or_default().into(),
                }
                made::<SetSessionConfigOptionResponse>(json!({"configOptions": matrix.options(&request.session_id)}))
            }),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, cx| {
                let stop = CancellationToken::new();
                match prompting.lock().unwrap().sessions.get_mut(&request.session_id) {
                    Some(session) => session.stop = stop.clone(),
                    None => return responder.respond_with_error(Error::invalid_params()),
                }
                let (matrix, connection): (Shared, ConnectionTo<Client>) = (prompting.clone(), cx.clone());
                cx.spawn(async move {
                    let cancellation = responder.cancellation();
                    let turn = Turn { request: &request, cx: &connection, matrix: &matrix, stop };
                    let played = cancellation.run_until_cancelled(turn.play()).await;
                    responder.respond_with_result(played.and_then(made::<PromptResponse>))
                })
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |cancel: CancelNotification, _cx| {
                if let Some(session) = cancelling.lock().unwrap().sessions.get(&cancel.session_id) {
                    session.stop.cancel();
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: UntypedMessage, responder, _cx| {
                if request.method == "_matrix/echo" {
                    responder.respond(request.params)
                } else {
                    responder.respond_with_error(Error::method_not_found())
                }
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |notification: UntypedMessage, _cx| {
                if notification.method == "_matrix/note" {
                    noting.lock().unwrap().note = notification.params;
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_to(ByteStreams::new(tokio::io::stdout().compat_write(), tokio::io::stdin().compat()))
        .await
}
