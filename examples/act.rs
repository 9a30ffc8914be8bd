//! A trained policy in a program of your own: reads an observation from each line, as a JSON list,
//! and prints the action.
//!
//!     echo '[1.25,0,0,0,0,0,0,0,0,0,0]' | cargo run --release --example act -- runs/hopper-ecrl-0/best.safetensors

use std::io::{self, BufRead as _};

use runs::policy::Policy;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: act POLICY.safetensors")?;
    let policy = Policy::open(path.as_ref())?;
    for line in io::stdin().lock().lines() {
        let observation: Vec<f32> = serde_json::from_str(&line?)?;
        println!("{}", serde_json::to_string(&policy.act(&observation)?)?);
    }
    Ok(())
}
