//! The client of the cross-SDK suite (`interop.matrix.steps`).

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CompleteElicitationNotification, CreateElicitationRequest, CreateElicitationResponse, CreateTerminalRequest,
    CreateTerminalResponse, InitializeRequest, KillTerminalRequest, KillTerminalResponse, LoadSessionRequest,
    NewSessionRequest, PromptRequest, ReadTextFileRequest, ReadTextFileResponse, ReleaseTerminalRequest,
    ReleaseTerminalResponse, RequestPermissionRequest, RequestPermissionResponse, ResumeSessionRequest,
    SessionNotification, SetSessionConfigOptionRequest, TerminalOutputRequest, TerminalOutputResponse,
    WaitForTerminalExitRequest, WaitForTerminalExitResponse, WriteTextFileRequest, WriteTextFileResponse,
};
use agent_client_protocol::{Agent, ByteStreams, Client, Error, Result, UntypedMessage};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::sync::Notify;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};
use tokio_util::sync::CancellationToken;

const OP: Duration = Duration::from_secs(180);
const SETTLE: Duration = Duration::from_millis(30);

fn made<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(Error::into_internal_error)
}

#[derive(Default)]
struct Suite {
    step: Mutex<String>,
    cwd: String,
    names: Mutex<HashMap<String, Value>>,
    terminals: Mutex<HashMap<String, Arc<Terminal>>>,
    cancel: Arc<Notify>,
    cancelled: Mutex<CancellationToken>,
}

struct Terminal {
    pid: u32,
    output: Mutex<String>,
    exit: tokio::sync::watch::Receiver<Option<Option<i32>>>,
}

async fn collect(mut child: Child, terminal: Arc<Terminal>, ended: tokio::sync::watch::Sender<Option<Option<i32>>>) {
    let mut text = String::new();
    let _ = child.stdout.take().unwrap().read_to_string(&mut text).await;
    *terminal.output.lock().unwrap() = text;
    let code = child.wait().await.ok().and_then(|status| status.code());
    let _ = ended.send(Some(code));
}

impl Suite {
    fn report(&self, event: &str, members: Value) {
        let mut line = members;
        line["step"] = json!(*self.step.lock().unwrap());
        line["event"] = json!(event);
        println!("{line}");
    }

    fn filled(&self, value: &Value) -> Value {
        match value {
            Value::String(text) if text.contains("$CWD/") => {
                json!(text.replace("$CWD/", &format!("{}/", self.cwd)))
            }
            Value::String(text) if text.starts_with('$') => self.names.lock().unwrap()[&text[1..]].clone(),
            Value::Object(members) => members.iter().map(|(name, each)| (name.clone(), self.filled(each))).collect(),
            other => other.clone(),
        }
    }

    fn answered(&self, result: std::result::Result<Result<Value>, tokio::time::error::Elapsed>) {
        match result {
            Ok(Ok(result)) => self.report("result", json!({"result": result})),
            Ok(Err(error)) => {
                self.report("error", json!({"code": i32::from(error.code), "message": error.message}));
            }
            Err(_) => self.report("timeout", json!({})),
        }
    }

    fn terminal(&self, id: impl ToString) -> Arc<Terminal> {
        self.terminals.lock().unwrap()[&id.to_string()].clone()
    }

    fn start(&self, request: &CreateTerminalRequest) -> Result<CreateTerminalResponse> {
        let mut command = Command::new(&request.command);
        command.args(&request.args).current_dir(&self.cwd).stdout(Stdio::piped());
        let child = command.spawn().map_err(Error::into_internal_error)?;
        let (ended, exit) = tokio::sync::watch::channel(None);
        let terminal = Arc::new(Terminal { pid: child.id().unwrap(), output: Mutex::default(), exit });
        tokio::spawn(collect(child, terminal.clone(), ended));
        let mut terminals = self.terminals.lock().unwrap();
        let id = format!("terminal-{}", terminals.len());
        terminals.insert(id.clone(), terminal);
        made(json!({"terminalId": id}))
    }
}

async fn read(request: &ReadTextFileRequest) -> Result<ReadTextFileResponse> {
    let Ok(text) = tokio::fs::read_to_string(&request.path).await else {
        return Err(Error::new(-32002, "Resource not found"));
    };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let first = request.line.map_or(0, |line| line as usize - 1);
    let last = request.limit.map_or(lines.len(), |limit| (first + limit as usize).min(lines.len()));
    made(json!({"content": lines[first..last].concat()}))
}

async fn call(cx: &ConnectionTo<Agent>, method: &str, params: Value) -> Result<Value> {
    if method == "session/set_config_option" {
        let request: SetSessionConfigOptionRequest = made(params)?;
        return Ok(json!(cx.send_request(request).block_task().await?));
    }
    cx.send_request(UntypedMessage::new(method, params)?).block_task().await
}

async fn open(cx: &ConnectionTo<Agent>, suite: &Suite, name: &str, method: &str, params: Value) -> Result<Value> {
    let answer = match method {
        "session/new" => json!(cx.send_request(made::<NewSessionRequest>(params.clone())?).block_task().await?),
        "session/load" => json!(cx.send_request(made::<LoadSessionRequest>(params.clone())?).block_task().await?),
        _ => json!(cx.send_request(made::<ResumeSessionRequest>(params.clone())?).block_task().await?),
    };
    let id = params.get("sessionId").unwrap_or(&answer["sessionId"]).clone();
    suite.names.lock().unwrap().insert(name.into(), id);
    Ok(answer)
}

async fn prompt(cx: ConnectionTo<Agent>, suite: Arc<Suite>, name: String, text: Value, options: Value) {
    let pad = "x".repeat(options["pad"].as_u64().unwrap_or(0).try_into().unwrap());
    let id = suite.names.lock().unwrap()[&name].clone();
    let content = format!("{}{pad}", suite.filled(&text).as_str().unwrap());
    let mut params = json!({"sessionId": id, "prompt": [{"type": "text", "text": content}]});
    if options["meta"].is_object() {
        params["_meta"] = options["meta"].clone();
    }
    let cancel = options["cancel"].as_str().map(str::to_owned);
    *suite.cancelled.lock().unwrap() = CancellationToken::new();
    // It listens before anything is sent: what it waits for may come only once, and before its task has run.
    let mut noticed = Box::pin(suite.cancel.clone().notified_owned());
    noticed.as_mut().enable();
    let sent = cx.send_request(made::<PromptRequest>(params).unwrap());
    let handle = sent.cancellation_handle();
    let waiting = suite.clone();
    let canceller = tokio::spawn(async move {
        if let Some(how) = cancel {
            noticed.await;
            if how == "request" {
                handle.cancel().unwrap();
            } else {
                cx.send_notification(UntypedMessage::new("session/cancel", json!({"sessionId": id})).unwrap()).unwrap();
                waiting.cancelled.lock().unwrap().cancel();
            }
        }
    });
    let result = tokio::time::timeout(OP, sent.block_task()).await;
    suite.answered(result.map(|answer| answer.map(|response| json!(response))));
    canceller.abort();
}

async fn follow(cx: ConnectionTo<Agent>, suite: Arc<Suite>, plan: Value) -> Result<()> {
    let hello: InitializeRequest = made(json!({
        "protocolVersion": 1,
        "clientCapabilities": plan["capabilities"],
        "clientInfo": {"name": "matrix-client", "version": "1"}
    }))?;
    let answer = cx.send_request(hello).block_task().await?;
    suite.report("result", json!({"result": answer}));
    let mut running = Vec::new();
    for step in plan["steps"].as_array().unwrap() {
        *suite.step.lock().unwrap() = step["id"].as_str().unwrap().into();
        for op in step["ops"].as_array().unwrap() {
            let word = |n: usize| op[n].as_str().unwrap_or_default();
            match word(0) {
                "call" => {
                    let asked = call(&cx, word(1), suite.filled(&op[2]));
                    suite.answered(tokio::time::timeout(OP, asked).await);
                }
                "open" => {
                    let asked = open(&cx, &suite, word(1), word(2), suite.filled(&op[3]));
                    suite.answered(tokio::time::timeout(OP, asked).await);
                }
                "notify" => cx.send_notification(UntypedMessage::new(word(1), suite.filled(&op[2]))?)?,
                "prompt" => {
                    let turn = prompt(cx.clone(), suite.clone(), word(1).into(), op[2].clone(), op[3].clone());
                    if op[3]["background"] == json!(true) {
                        running.push(tokio::spawn(turn));
                        tokio::time::sleep(SETTLE).await;
                    } else {
                        turn.await;
                    }
                }
                "settle" => {
                    for each in running.drain(..) {
                        let _ = each.await;
                    }
                }
                _ => {} // "close" is the last one, and done by whoever started the agent
            }
            tokio::time::sleep(SETTLE).await;
        }
    }
    Ok(())
}

#[allow(clippy::too_many_lines)]
pub async fn run(arguments: &[String]) -> Result<()> {
    let text = std::fs::read_to_string(&arguments[0]).map_err(Error::into_internal_error)?;
    let plan: Value = serde_json::from_str(&text).map_err(Error::into_internal_error)?;
    let argv: Vec<String> = made(plan["agent"].clone())?;
    let cwd: String = made(plan["cwd"].clone())?;
    let mut child = Command::new(&argv[0])
        .args(&argv[1..])
        .current_dir(&cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(Error::into_internal_error)?;
    let (input, output) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let suite = Arc::new(Suite { cwd, step: Mutex::new("init.initialize".into()), ..Suite::default() });
    macro_rules! with {
        (|$suite:ident, $request:ident: $kind:ty| $body:expr) => {{
            let shared = suite.clone();
            async move |$request: $kind, responder, _cx| {
                let $suite = &shared;
                responder.respond_with_result($body)
            }
        }};
    }
    let (updates, permissions, reads, waits) = (suite.clone(), suite.clone(), suite.clone(), suite.clone());
    let (completed, notes, following) = (suite.clone(), suite.clone(), suite.clone());
    Client
        .v1()
        .name("matrix-client")
        .on_receive_notification(
            async move |notification: SessionNotification, _cx| {
                let params = json!(notification);
                updates.report("update", json!({"sessionId": params["sessionId"], "update": params["update"]}));
                updates.cancel.notify_waiters();
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, cx| {
                let params = json!(request);
                let title = params["toolCall"]["title"].clone();
                permissions.report("permission", json!({"title": title, "meta": params["_meta"]}));
                permissions.cancel.notify_waiters();
                if title == "hold" {
                    let cancelled = permissions.cancelled.lock().unwrap().clone();
                    return cx.spawn(async move {
                        cancelled.cancelled().await;
                        responder.respond_with_result(made::<RequestPermissionResponse>(
                            json!({"outcome": {"outcome": "cancelled"}}),
                        ))
                    });
                }
                responder.respond_with_result(made(
                    json!({"outcome": {"outcome": "selected", "optionId": params["options"][0]["optionId"]}}),
                ))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ReadTextFileRequest, responder, cx| {
                reads.report("read", json!({"path": request.path}));
                cx.spawn(async move {
                    if request.path.ends_with("never") {
                        responder.cancellation().cancelled().await;
                        return responder.respond_with_error(Error::request_cancelled());
                    }
                    responder.respond_with_result(read(&request).await)
                })
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            with!(|_suite, request: WriteTextFileRequest| {
                std::fs::write(&request.path, &request.content).map_err(Error::into_internal_error)?;
                made::<WriteTextFileResponse>(json!({}))
            }),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            with!(|suite, request: CreateTerminalRequest| suite.start(&request)),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: WaitForTerminalExitRequest, responder, cx| {
                let terminal = waits.terminal(request.terminal_id);
                cx.spawn(async move {
                    let mut exit = terminal.exit.clone();
                    let code = exit.wait_for(Option::is_some).await.map_err(Error::into_internal_error)?.unwrap();
                    responder.respond_with_result(made::<WaitForTerminalExitResponse>(json!({"exitCode": code})))
                })
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            with!(|suite, request: TerminalOutputRequest| {
                let output = suite.terminal(request.terminal_id).output.lock().unwrap().clone();
                made::<TerminalOutputResponse>(json!({"output": output, "truncated": false}))
            }),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            with!(|suite, request: KillTerminalRequest| {
                let pid = suite.terminal(request.terminal_id).pid.to_string();
                std::process::Command::new("kill").args(["-KILL", &pid]).status().map_err(Error::into_internal_error)?;
                made::<KillTerminalResponse>(json!({}))
            }),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            with!(|_suite, _request: ReleaseTerminalRequest| made::<ReleaseTerminalResponse>(json!({}))),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            with!(|suite, request: CreateElicitationRequest| {
                let mode = json!(request)["mode"].clone();
                suite.report("elicitation", json!({"mode": mode}));
                let mut answer = json!({"action": "accept"});
                if mode == "form" {
                    answer["content"] = json!({"name": "matrix"});
                }
                made::<CreateElicitationResponse>(answer)
            }),
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |notification: CompleteElicitationNotification, _cx| {
                completed.report("elicitation_complete", json!({"elicitationId": notification.elicitation_id}));
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
                    notes.report("ext_notification", json!({"params": notification.params}));
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_with(ByteStreams::new(output.compat_write(), input.compat()), async move |cx| {
            follow(cx, following, plan).await
        })
        .await?;
    let code = tokio::time::timeout(OP, child.wait()).await.ok().and_then(|status| status.ok()?.code());
    suite.report("exited", json!({"code": code}));
    Ok(())
}
