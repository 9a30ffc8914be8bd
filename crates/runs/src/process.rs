//! Processes that this one starts.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The Python that has this package, for what only Python's packages can do: the one that runs this program (`program`
/// is how another process does what this one does), or the one in PATH.
pub fn python(program: &[OsString]) -> OsString {
    match program {
        [python, module, ..] if module == "-m" => python.clone(),
        _ => "python3".into(),
    }
}

/// Has a process asked to end when the thread that starts it does, and out of reach of a terminal's Ctrl-C.
pub fn bound(command: &mut Command) {
    command.process_group(0);
    let parent = std::process::id();
    // SAFETY: between fork and exec, only two system calls that may be made there.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            if libc::getppid() as u32 != parent {
                return Err(std::io::Error::other("whoever started it was killed"));
            }
            Ok(())
        });
    }
}
