//! Ctrl-C while a training runs: the first asks it to store what it has and end, the second ends it at
//! once.
//!
//! Python itself would see a signal only between two of its own instructions, of which there may be none
//! for minutes.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::ffi;
use pyo3::prelude::*;

/// Signals since the handler was installed.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Trainings that listen: one may begin another in its callback.
static DEPTH: AtomicUsize = AtomicUsize::new(0);

extern "C" fn note(_: libc::c_int) {
    if COUNT.fetch_add(1, Ordering::Relaxed) > 0 {
        // SAFETY: it may be called from a signal handler, attached or not.
        unsafe { ffi::PyErr_SetInterrupt() };
    }
}

/// Whether Ctrl-C was pressed.
pub fn asked() -> bool {
    COUNT.load(Ordering::Relaxed) > 0
}

/// Whether it was pressed again.
pub fn insisted() -> bool {
    COUNT.load(Ordering::Relaxed) > 1
}

/// Listens as long as it lives; only Python's main thread may.
pub struct Listening(libc::sigaction);

impl Listening {
    /// Takes Ctrl-C over, to be answered well first.
    pub fn begin() -> Self {
        Self::with(0)
    }

    /// Takes Ctrl-C over, to be answered at once.
    pub fn at_once() -> Self {
        Self::with(1)
    }

    fn with(count: usize) -> Self {
        if DEPTH.fetch_add(1, Ordering::Relaxed) == 0 {
            COUNT.store(count, Ordering::Relaxed);
        }
        // SAFETY: all zeros is a valid value of this plain struct.
        let (mut own, mut before): (libc::sigaction, libc::sigaction) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        own.sa_sigaction = note as *const () as usize;
        own.sa_flags = libc::SA_RESTART;
        // SAFETY: both are valid, and the handler only touches what a handler may.
        unsafe { libc::sigaction(libc::SIGINT, &own, &mut before) };
        if before.sa_sigaction == libc::SIG_IGN {
            // Whoever started this wants it ignored.
            // SAFETY: it was in force before.
            unsafe { libc::sigaction(libc::SIGINT, &before, std::ptr::null_mut()) };
        }
        Self(before)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // SAFETY: it was in force before.
        unsafe { libc::sigaction(libc::SIGINT, &self.0, std::ptr::null_mut()) };
        if DEPTH.fetch_sub(1, Ordering::Relaxed) == 1 {
            COUNT.store(0, Ordering::Relaxed);
        }
    }
}

/// What is raised then; an interrupt that Python is still to see is this one.
pub fn raised(py: Python) -> PyErr {
    let _ = py.check_signals();
    PyKeyboardInterrupt::new_err(())
}
