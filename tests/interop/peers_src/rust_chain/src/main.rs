//! The Rust SDK's conductor as it is, and a proxy on that SDK which marks what passes.
//!
//!     rust-chain proxy-of-its-own
//!     rust-chain agent COMMAND...      (the conductor's own command line)
//!     rust-chain proxy COMMAND...

use agent_client_protocol::v1::schema::{ContentBlock, SessionNotification, SessionUpdate};
use agent_client_protocol::{Agent, ByteStreams, Client, Proxy};
use agent_client_protocol_conductor::ConductorArgs;
use clap::Parser;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

/// Puts an arrow before each chunk of the agent's text, and passes the rest on.
async fn arrow() -> anyhow::Result<()> {
    Proxy
        .v1()
        .name("rust-arrow")
        .on_receive_notification_from(
            Agent,
            async move |mut notification: SessionNotification, cx| {
                if let SessionUpdate::AgentMessageChunk(chunk) = &mut notification.update {
                    if let ContentBlock::Text(text) = &mut chunk.content {
                        text.text = format!(">{}", text.text);
                    }
                }
                cx.send_notification_to(Client, notification)
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .connect_to(ByteStreams::new(tokio::io::stdout().compat_write(), tokio::io::stdin().compat()))
        .await
        .map_err(|error| anyhow::anyhow!("{error}"))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("proxy-of-its-own") {
        arrow().await?;
    } else {
        ConductorArgs::parse().main().await?;
    }
    // A thread may still wait for standard input.
    std::process::exit(0)
}
