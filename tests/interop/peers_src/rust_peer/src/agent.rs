//! The agent: the directives of `race_plans.py`, one turn per session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, ContentChunk, Implementation, InitializeRequest, InitializeResponse,
    NewSessionRequest, NewSessionResponse, PermissionOption, PermissionOptionKind, PromptRequest, PromptResponse,
    RequestPermissionRequest, SessionId, SessionNotification, SessionUpdate, StopReason, TextContent, ToolCallUpdate,
    ToolCallUpdateFields,
};
use agent_client_protocol::{Agent, ByteStreams, Client, Error, Result};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};
use tokio_util::sync::CancellationToken;

#[derive(Default)]
struct Turns {
    running: HashMap<SessionId, CancellationToken>,
    sessions: u32,
}

/// What the first word of the prompt says. It ends early when `stop` is set; when its request is cancelled it is
/// dropped where it waits, and with it what it asked the client.
async fn play(
    request: &PromptRequest,
    cx: &ConnectionTo<Client>,
    stop: &CancellationToken,
) -> Result<()> {
    let text: String = request
        .prompt
        .iter()
        .filter_map(|block| if let ContentBlock::Text(text) = block { Some(text.text.as_str()) } else { None })
        .collect();
    let words: Vec<&str> = text.split(' ').collect();
    let say = |text: String| {
        let chunk = ContentChunk::new(ContentBlock::Text(TextContent::new(text)));
        cx.send_notification(SessionNotification::new(
            request.session_id.clone(),
            SessionUpdate::AgentMessageChunk(chunk),
        ))
    };
    match words[0] {
        "stream" => {
            let delay = words.get(2).map(|word| Duration::from_secs_f64(word.parse().unwrap()));
            for n in 1..=words[1].parse::<u32>().unwrap() {
                if stop.is_cancelled() {
                    break;
                }
                say(n.to_string())?;
                if let Some(delay) = delay {
                    tokio::time::sleep(delay).await;
                }
            }
        }
        "polite" | "hang" | "fail-on-cancel" => stop.cancelled().await,
        "fail" => return Err(Error::new(words[1].parse::<i32>().unwrap(), "asked to fail").data(json!({"asked": true}))),
        "len" => say("0".into())?,
        "permission" => {
            let ask = || {
                let fields = ToolCallUpdateFields::new().title("Change a file".to_string());
                let options = vec![
                    PermissionOption::new("allow", "Allow", PermissionOptionKind::AllowOnce),
                    PermissionOption::new("deny", "Reject", PermissionOptionKind::RejectOnce),
                ];
                cx.send_request(RequestPermissionRequest::new(
                    request.session_id.clone(),
                    ToolCallUpdate::new("t1", fields),
                    options,
                ))
            };
            let asked: Vec<_> = (0..words[1].parse::<u32>().unwrap()).map(|_| ask()).collect();
            for each in asked {
                each.block_task().await?;
            }
        }
        other => return Err(Error::invalid_params().data(json!({"directive": other}))),
    }
    Ok(())
}

pub async fn serve(listen: bool) -> Result<()> {
    let turns = Arc::new(Mutex::new(Turns::default()));
    let (opening, prompting, cancelling) = (turns.clone(), turns.clone(), turns);
    let builder = Agent
        .v1()
        .name("rust-race-agent")
        .on_receive_request(
            async move |_: InitializeRequest, responder, _cx| {
                responder.respond(
                    InitializeResponse::new(ProtocolVersion::V1).agent_info(Implementation::new("rust-race-agent", "1")),
                )
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |_: NewSessionRequest, responder, _cx| {
                let mut turns = opening.lock().unwrap();
                turns.sessions += 1;
                responder.respond(NewSessionResponse::new(format!("rust-{}", turns.sessions)))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, cx| {
                let stop = CancellationToken::new();
                {
                    let mut turns = prompting.lock().unwrap();
                    if turns.running.contains_key(&request.session_id) {
                        let busy = Error::invalid_request().data(json!({"sessionId": request.session_id}));
                        return responder.respond_with_error(busy);
                    }
                    turns.running.insert(request.session_id.clone(), stop.clone());
                }
                let turns = prompting.clone();
                let connection: ConnectionTo<Client> = cx.clone();
                cx.spawn(async move {
                    let cancellation = responder.cancellation();
                    let played = cancellation.run_until_cancelled(play(&request, &connection, &stop)).await;
                    turns.lock().unwrap().running.remove(&request.session_id);
                    let reason = if stop.is_cancelled() { StopReason::Cancelled } else { StopReason::EndTurn };
                    responder.respond_with_result(played.map(|()| PromptResponse::new(reason)))
                })
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |cancel: CancelNotification, _cx| {
                if let Some(stop) = cancelling.lock().unwrap().running.get(&cancel.session_id) {
                    stop.cancel();
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        );
    if !listen {
        let streams = ByteStreams::new(tokio::io::stdout().compat_write(), tokio::io::stdin().compat());
        return builder.connect_to(streams).await;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(Error::into_internal_error)?;
    println!("listening {}", listener.local_addr().unwrap().port());
    let (socket, _) = listener.accept().await.map_err(Error::into_internal_error)?;
    socket.set_nodelay(true).unwrap();
    let (input, output) = socket.into_split();
    // The link may be cut under it, which is no failure of this program.
    if let Err(error) = builder.connect_to(ByteStreams::new(output.compat_write(), input.compat())).await {
        eprintln!("the connection ended: {error}");
    }
    Ok(())
}
