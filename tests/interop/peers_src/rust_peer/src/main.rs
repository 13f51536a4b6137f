//! Agents and clients on the Rust SDK: for the plans of `race_plans.py`, and for the steps of `interop.matrix.steps`.
//!
//!     rust-peer agent [listen]
//!     rust-peer client PLAN_FILE tcp PORT
//!     rust-peer client PLAN_FILE spawn AGENT [ARGUMENT...]
//!     rust-peer matrix-agent
//!     rust-peer matrix-client PLAN_FILE

mod agent;
mod client;
mod matrix_agent;
mod matrix_client;

use agent_client_protocol::Result;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("agent") => agent::serve(arguments.get(1).is_some()).await?,
        Some("client") => client::run(&arguments[1..]).await?,
        Some("matrix-agent") => matrix_agent::serve().await?,
        Some("matrix-client") => matrix_client::run(&arguments[1..]).await?,
        _ => panic!("agent or client?"),
    }
    // A thread may still wait for standard input.
    std::process::exit(0)
}
