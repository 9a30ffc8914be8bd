//! `ecrl export`.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use runs::export;

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
    let policy = args.policy.choose(&[])?.policy;
    let (bytes, extension) = match args.format {
        Format::Onnx => (export::onnx(&policy), "onnx"),
        Format::Safetensors => (policy.to_bytes(), "safetensors"),
        Format::Json => (export::json(&policy).into_bytes(), "json"),
    };
    let out = args.out.unwrap_or_else(|| format!("policy.{extension}").into());
    std::fs::write(&out, &bytes)
        .map_err(|error| Failure::run(format!("{}: {error}", out.display())))?;
    writeln!(output, "wrote {}: {} bytes", out.display(), bytes.len())?;
    Ok(())
}
