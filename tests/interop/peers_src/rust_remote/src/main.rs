//! An agent on the Rust SDK behind its HTTP and WebSocket server, and a client for such an agent.
//!
//!     rust-remote serve
//!     rust-remote drive URL PROMPT...
//!
//! The first prints the port that it listens on. The second opens a session and sends the prompts one after the other;
//! a prompt of "slow" is cancelled at its third update. It prints one JSON line for each update and each answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, ContentChunk, Implementation, InitializeRequest, InitializeResponse,
    NewSessionRequest, NewSessionResponse, PromptRequest, PromptResponse, SessionId, SessionNotification,
    SessionUpdate, StopReason, TextContent,
};
use agent_client_protocol::{Agent, Client, ConnectTo, Error, Result};
use agent_client_protocol_http::{AcpHttpServer, HttpClient};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

async fn play(request: &PromptRequest, cx: &ConnectionTo<Client>, stop: &CancellationToken) -> Result<()> {
    let text: String = request
        .prompt
        .iter()
        .filter_map(|block| if let ContentBlock::Text(text) = block { Some(text.text.as_str()) } else { None })
        .collect();
    let say = |text: String| {
        let chunk = ContentChunk::new(ContentBlock::Text(TextContent::new(text)));
        cx.send_notification(SessionNotification::new(
            request.session_id.clone(),
            SessionUpdate::AgentMessageChunk(chunk),
        ))
    };
    let words: Vec<&str> = text.split(' ').collect();
    match words[0] {
        "stream" => {
            for n in 1..=words[1].parse::<u32>().unwrap() {
                say(n.to_string())?;
            }
        }
        "slow" => {
            for n in 1.. {
                if stop.is_cancelled() {
                    break;
                }
                say(format!("tick {n}"))?;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        _ => say(text.clone())?,
    }
    Ok(())
}

fn agent() -> impl ConnectTo<Client> {
    let running: Arc<Mutex<HashMap<SessionId, CancellationToken>>> = Arc::default();
    let cancelling = running.clone();
    let sessions = Mutex::new(0);
    Agent
        .v1()
        .name("rust-remote-agent")
        .on_receive_request(
            async move |_: InitializeRequest, responder, _cx| {
                responder.respond(
                    InitializeResponse::new(ProtocolVersion::V1).agent_info(Implementation::new("rust-remote", "1")),
                )
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |_: NewSessionRequest, responder, _cx| {
                let number = {
                    let mut count = sessions.lock().unwrap();
                    *count += 1;
                    *count
                };
                responder.respond(NewSessionResponse::new(format!("rust-{number}")))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, cx| {
                let stop = CancellationToken::new();
                running.lock().unwrap().insert(request.session_id.clone(), stop.clone());
                let connection: ConnectionTo<Client> = cx.clone();
                cx.spawn(async move {
                    let cancellation = responder.cancellation();
                    let played = cancellation.run_until_cancelled(play(&request, &connection, &stop)).await;
                    let reason = if stop.is_cancelled() { StopReason::Cancelled } else { StopReason::EndTurn };
                    responder.respond_with_result(played.map(|()| PromptResponse::new(reason)))
                })
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_notification(
            async move |cancel: CancelNotification, _cx| {
                if let Some(stop) = cancelling.lock().unwrap().get(&cancel.session_id) {
                    stop.cancel();
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
}

async fn serve() -> Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.map_err(Error::into_internal_error)?;
    println!("{}", json!({"port": listener.local_addr().unwrap().port()}));
    let app = AcpHttpServer::new(agent).into_router();
    axum::serve(listener, app).await.map_err(Error::into_internal_error)
}

async fn drive(url: &str, prompts: &[String]) -> Result<()> {
    let (heard, mut hearing) = mpsc::unbounded_channel();
    let client = HttpClient::with_endpoint(url).map_err(Error::into_internal_error)?;
    Client
        .v1()
        .name("rust-remote-client")
        .on_receive_notification(
            async move |update: SessionNotification, _cx| {
                println!("{}", json!({"event": "update", "update": update.update}));
                heard.send(()).map_err(Error::into_internal_error)
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_with(client, async move |cx: ConnectionTo<Agent>| {
            let hello = cx.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
            println!("{}", json!({"event": "initialized", "version": hello.protocol_version}));
            let session = cx.send_request(NewSessionRequest::new("/")).block_task().await?;
            for text in prompts {
                let block = ContentBlock::Text(TextContent::new(text.clone()));
                while hearing.try_recv().is_ok() {}
                let sent = cx.send_request(PromptRequest::new(session.session_id.clone(), vec![block]));
                if text.starts_with("slow") {
                    for _ in 0..3 {
                        hearing.recv().await;
                    }
                    cx.send_notification(CancelNotification::new(session.session_id.clone()))?;
                }
                let answer = sent.block_task().await?;
                println!("{}", json!({"event": "result", "result": answer}));
            }
            Ok(())
        })
        .await
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("serve") => serve().await?,
        Some("drive") => drive(&arguments[1], &arguments[2..]).await?,
        _ => panic!("serve or drive?"),
    }
    std::process::exit(0)
}
