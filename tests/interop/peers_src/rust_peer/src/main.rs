//! An agent and a client on the Rust SDK, for the plans of `race_plans.py`.
//!
//!     rust-peer agent [listen]
//!     rust-peer client PLAN_FILE tcp PORT
//!     rust-peer client PLAN_FILE spawn AGENT [ARGUMENT...]

mod agent;
mod client;

use agent_client_protocol::Result;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("agent") => agent::serve(arguments.get(1).is_some()).await?,
        Some("client") => client::run(&arguments[1..]).await?,
        _ => panic!("agent or client?"),
    }
    // A thread may still wait for standard input.
    std::process::exit(0)
}
