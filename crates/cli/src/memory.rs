//! Memory that cannot be had gets one line, as any other input that is too large does.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, which says so when it has nothing left, instead of aborting.
pub struct Told;

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Told {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by whoever calls.
        told(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by whoever calls.
        told(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as promised by whoever calls.
        told(unsafe { System.realloc(memory, layout, size) }, size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as promised by whoever calls.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn told(memory: *mut u8, size: usize) -> *mut u8 {
    if memory.is_null() {
        // On the stack: there is nothing else to write with.
        let mut line = [0; 192];
        let mut rest = &mut line[..];
        let text = format_args!(
            "error: out of memory: {size} bytes more were asked for; expected smaller networks, \
             populations or batches\n"
        );
        let _ = std::io::Write::write_fmt(&mut rest, text);
        let left = rest.len();
        let line = &line[..line.len() - left];
        // SAFETY: both take plain values, and a slice that is there; neither needs memory or a lock.
        unsafe {
            libc::write(2, line.as_ptr().cast(), line.len());
            libc::_exit(2);
        }
    }
    memory
}
