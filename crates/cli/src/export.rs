//! `ecrl export`.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use runs::export;
use runs::output::put;
use runs::shell::printable;

use crate::failure::Failure;
use crate::policies::PolicyArgs;

#[derive(Args)]
pub struct ExportArgs {
    #[command(flatten)]
    policy: PolicyArgs,
    /// The form
    #[arg(long, value_enum)]
    format: Format,
    /// The file [default: policy.FORMAT]
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// For ONNX Runtime and most else: observation to action, any number of rows
    Onnx,
    /// The tensors as they are, with the head [mean, log deviation]
    Safetensors,
    /// Plain numbers, layer by layer: needs no library
    Json,
}

pub fn export(args: ExportArgs, output: &mut impl Write) -> Result<(), Failure> {
    let policy = args.policy.open()?;
    let (bytes, extension) = match args.format {
        Format::Onnx => (export::onnx(&policy), "onnx"),
        Format::Safetensors => (policy.to_bytes(), "safetensors"),
        Format::Json => (export::json(&policy).into_bytes(), "json"),
    };
    let out = args.out.unwrap_or_else(|| format!("policy.{extension}").into());
    put(&out, &bytes, export::is_ours)?;
    writeln!(output, "wrote {}: {} bytes", printable(&out.display().to_string()), bytes.len())?;
    Ok(())
}
