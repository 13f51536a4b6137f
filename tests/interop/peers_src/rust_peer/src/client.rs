//! The client: follows a plan, and prints one JSON line per answer.

use std::collections::HashMap;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, InitializeRequest, NewSessionRequest, PermissionOptionId, PromptRequest,
    PromptResponse, RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionId, SessionNotification, TextContent,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{Agent, ByteStreams, Client, Error, Result};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

/// What goes to the writer's task.
enum Out {
    Bytes(Vec<u8>),
    Cork,
    Uncork,
}

/// A writer that is always ready, so that several messages can leave in one write.
struct Corked(mpsc::UnboundedSender<Out>);

impl AsyncWrite for Corked {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let sent = self.0.send(Out::Bytes(bytes.to_vec()));
        Poll::Ready(sent.map(|()| bytes.len()).map_err(|_| std::io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

async fn write(mut queue: mpsc::UnboundedReceiver<Out>, mut output: impl AsyncWrite + Unpin) {
    let (mut kept, mut corked) = (Vec::new(), false);
    while let Some(out) = queue.recv().await {
        match out {
            Out::Bytes(bytes) => kept.extend(bytes),
            Out::Cork => corked = true,
            Out::Uncork => corked = false,
        }
        if !corked && (output.write_all(&kept).await.is_err() || output.flush().await.is_err()) {
            return;
        }
        if !corked {
            kept.clear();
        }
    }
}

/// A permission request that is not answered yet.
struct Held {
    session: SessionId,
    first: PermissionOptionId,
    responder: Responder<RequestPermissionResponse>,
}

type AllHeld = Arc<Mutex<HashMap<u32, Held>>>;

fn settle(held: &AllHeld, session: &SessionId, choose: bool) -> Result<()> {
    let mut held = held.lock().unwrap();
    let numbers: Vec<u32> = held.iter().filter(|(_, each)| &each.session == session).map(|(n, _)| *n).collect();
    for number in numbers {
        let each = held.remove(&number).unwrap();
        each.responder.respond(RequestPermissionResponse::new(if choose {
            RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(each.first))
        } else {
            RequestPermissionOutcome::Cancelled
        }))?;
    }
    Ok(())
}

fn report(line: serde_json::Value) {
    println!("{line}");
}

fn answered(number: usize, result: Result<PromptResponse>) {
    report(match result {
        Ok(response) => json!({"ref": number, "outcome": response.stop_reason}),
        Err(error) => json!({"ref": number, "outcome": i32::from(error.code)}),
    });
}

/// A prompt that was sent, and the ways in which its request is cancelled.
struct Sent {
    give_up: Box<dyn FnMut() -> Result<()> + Send>,
    stray: Box<dyn Fn() -> Result<()> + Send>,
    consume: Arc<Notify>,
    done: Option<tokio::task::JoinHandle<()>>,
}

/// Each third prompt is given up by its retained handle, by dropping the future of its answer, and by
/// `SentRequest::cancel` before its answer is asked for.
fn send(cx: &ConnectionTo<Agent>, number: usize, session: &SessionId, text: String) -> Sent {
    let prompt = PromptRequest::new(session.clone(), vec![ContentBlock::Text(TextContent::new(text))]);
    let request = cx.send_request(prompt);
    let (connection, id) = (cx.clone(), request.raw_id().clone());
    let stray = Box::new(move || connection.send_cancel_request(id.clone()));
    let (consume, cancel) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (consumed, cancelled) = (consume.clone(), cancel.clone());
    let handle = request.cancellation_handle();
    let task = tokio::spawn(async move {
        match number % 3 {
            0 => answered(number, request.block_task().await),
            1 => tokio::select! {
                result = request.block_task() => answered(number, result),
                () = cancelled.notified() => report(json!({"ref": number, "outcome": "dropped"})),
            },
            _ => {
                tokio::select! {
                    () = cancelled.notified() => request.cancel().unwrap(),
                    () = consumed.notified() => {}
                }
                answered(number, request.block_task().await);
            }
        }
    });
    let give_up = Box::new(move || {
        if number % 3 == 0 {
            return handle.cancel();
        }
        cancel.notify_one();
        Ok(())
    });
    Sent { give_up, stray, consume, done: Some(task) }
}

async fn follow(
    cx: ConnectionTo<Agent>,
    plan: &str,
    held: AllHeld,
    out: mpsc::UnboundedSender<Out>,
    cut: impl Fn(),
) -> Result<()> {
    cx.send_request(InitializeRequest::new(ProtocolVersion::V1)).block_task().await?;
    let mut sessions = Vec::new();
    for _ in 0..2 {
        sessions.push(cx.send_request(NewSessionRequest::new("/")).block_task().await?.session_id);
    }
    let mut sent: Vec<Sent> = Vec::new();
    let short = Duration::from_millis(1);
    for line in plan.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = words.get(1).map_or(0, |word| word.parse::<usize>().unwrap());
        match words[0] {
            "prompt" => {
                let session = &sessions[words[2].parse::<usize>().unwrap()];
                sent.push(send(&cx, number, session, words[3..].join(" ")));
            }
            "cancel" => {
                cx.send_notification(CancelNotification::new(sessions[number].clone()))?;
                settle(&held, &sessions[number], false)?;
            }
            "give-up" => (sent[number].give_up)()?,
            "stray" => (sent[number].stray)()?,
            "permit" => settle(&held, &sessions[number], true)?,
            "pause" => tokio::time::sleep(Duration::from_millis(number as u64)).await,
            "await" => {
                sent[number].consume.notify_one();
                if let Some(done) = sent[number].done.take() {
                    done.await.map_err(Error::into_internal_error)?;
                }
            }
            "cork" => {
                tokio::time::sleep(short).await;
                out.send(Out::Cork).map_err(Error::into_internal_error)?;
            }
            "uncork" => {
                tokio::time::sleep(short).await;
                out.send(Out::Uncork).map_err(Error::into_internal_error)?;
            }
            "drop" => cut(),
            other => panic!("no such step: {other}"),
        }
    }
    report(json!({"finished": true}));
    Ok(())
}

async fn converse(
    plan: String,
    input: impl AsyncRead + Send + 'static,
    output: impl AsyncWrite + Unpin + Send + 'static,
    cut: impl Fn(),
) -> Result<()> {
    let (out, queue) = mpsc::unbounded_channel();
    let writer = tokio::spawn(write(queue, output));
    let held = AllHeld::default();
    let holding = held.clone();
    let streams = ByteStreams::new(Corked(out.clone()).compat_write(), input.compat());
    Client
        .v1()
        .name("rust-race-client")
        .on_receive_notification(
            async move |_: SessionNotification, _cx| Ok(()),
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder: Responder<RequestPermissionResponse>, cx| {
                static NUMBERS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
                let number = NUMBERS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let cancellation = responder.cancellation();
                let first = request.options[0].option_id.clone();
                holding.lock().unwrap().insert(number, Held { session: request.session_id, first, responder });
                let holding = holding.clone();
                cx.spawn(async move {
                    cancellation.cancelled().await;
                    let gone = holding.lock().unwrap().remove(&number);
                    gone.map_or(Ok(()), |held| held.responder.respond_with_error(Error::request_cancelled()))
                })
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(streams, async move |cx| follow(cx, &plan, held, out, cut).await)
        .await?;
    writer.await.map_err(Error::into_internal_error)
}

pub async fn run(arguments: &[String]) -> Result<()> {
    let plan = std::fs::read_to_string(&arguments[0]).map_err(Error::into_internal_error)?;
    if arguments[1] == "tcp" {
        let port: u16 = arguments[2].parse().map_err(Error::into_internal_error)?;
        let socket = TcpStream::connect(("127.0.0.1", port)).await.map_err(Error::into_internal_error)?;
        socket.set_nodelay(true).unwrap();
        let socket = socket.into_std().unwrap();
        let kept = TcpStream::from_std(socket.try_clone().unwrap()).unwrap();
        let (input, output) = TcpStream::from_std(socket).unwrap().into_split();
        // With a reset: an end of the stream would be a half-close, behind which answers are still due.
        #[allow(deprecated)]
        let cut = move || {
            kept.set_linger(Some(Duration::ZERO)).unwrap();
            std::process::exit(0)
        };
        return converse(plan, input, output, cut).await;
    }
    let mut child = tokio::process::Command::new(&arguments[2])
        .args(&arguments[3..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(Error::into_internal_error)?;
    let (input, output) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let pid = child.id().unwrap().to_string();
    let cut = move || {
        std::process::Command::new("kill").args(["-KILL", &pid]).status().unwrap();
        std::process::exit(0)
    };
    converse(plan, input, output, cut).await?;
    child.wait().await.map_err(Error::into_internal_error)?;
    Ok(())
}
