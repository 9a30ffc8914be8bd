//! Ctrl-C and what else asks a command to end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use runs::lock::TASK;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::Failure;

/// Ctrl-C, SIGTERM and a terminal that was closed: the first asks the run to end well, the second ends it.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Stop {
    /// Listens to signals.
    pub(crate) fn install() -> Result<Self, Failure> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // Under nohup a closed terminal is nothing to care about.
            if signal == SIGHUP && is_ignored(signal) {
                continue;
            }
            let register = || -> io::Result<()> {
                use signal_hook::flag;
                // In this order: the second signal finds the flag that the first one set. An engine may send the same
                // one to a job's script and to its processes, and kills those that it waits for no longer.
                if std::env::var_os(TASK).is_none() {
                    flag::register_conditional_shutdown(signal, 128 + signal, stop.asked.clone())?;
                }
                flag::register(signal, stop.asked.clone())?;
                flag::register_usize(signal, stop.signal.clone(), signal as usize)?;
                Ok(())
            };
            register().map_err(|e| Failure::run(format!("cannot listen for Ctrl-C: {e}")))?;
        }
        Ok(stop)
    }

    /// Asks the run to end well.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked to.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// The signal that asked.
    pub(crate) fn signal(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::Relaxed) as i32).filter(|&signal| signal != 0)
    }
}

/// Whether whoever started this process has it ignore a signal.
fn is_ignored(signal: i32) -> bool {
    // SAFETY: all zeros is a valid value of this plain struct, which is only written to.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: with no new action, the present one is written to where it may be.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) };
    asked == 0 && action.sa_sigaction == libc::SIG_IGN
}
