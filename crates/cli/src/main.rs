//! The `ecrl` program.

mod memory;

use std::process::ExitCode;

#[global_allocator]
static MEMORY: memory::Told = memory::Told;

fn main() -> ExitCode {
    ExitCode::from(cli::command(std::env::args_os(), None))
}
