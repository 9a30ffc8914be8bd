//! A compiled model as bytes, the same wherever its files lay.
//!
//! The engine's own form, MJB, holds the folders that meshes and textures came from. They are nobody's business, and the
//! same model would have another checksum elsewhere: they are taken out.

use std::mem::offset_of;

use mujoco_rs::mujoco_c::{mjModel, mjtSize};
use mujoco_rs::prelude::MjModel;

/// Numbers of 32 bits in front of the sizes, in the engine's version 3.17.
const HEADER: usize = 5 * size_of::<i32>();

/// Arrays begin at multiples of this.
const ALIGNED: usize = 64;

/// The model without paths; all that they led to must be within it. Where the form is not what is expected, the whole.
pub fn compiled(model: &MjModel) -> Vec<u8> {
    let whole = bytes(model);
    let mut bare = model.clone();
    // SAFETY: every pointer is to as many numbers as the size beside it says, of a model that nobody else has.
    unsafe {
        let ffi = bare.ffi_mut();
        for (numbers, count) in [
            (ffi.mesh_pathadr, ffi.nmesh),
            (ffi.hfield_pathadr, ffi.nhfield),
            (ffi.skin_pathadr, ffi.nskin),
            (ffi.tex_pathadr, ffi.ntex),
            (ffi.tex_contenttypeadr, ffi.ntex),
        ] {
            if !numbers.is_null() {
                std::slice::from_raw_parts_mut(numbers, count as usize).fill(-1);
            }
        }
    }
    let cut = without_paths(bytes(&bare), model);
    match cut.filter(|cut| MjModel::from_buffer(cut).is_ok()) {
        Some(cut) => cut,
        None => whole,
    }
}

fn bytes(model: &MjModel) -> Vec<u8> {
    let mut bytes = vec![0; model.size()];
    model.save_to_buffer(&mut bytes).expect("it has the model's own size");
    bytes
}

fn without_paths(mut bytes: Vec<u8>, model: &MjModel) -> Option<Vec<u8>> {
    let paths: Vec<u8> = model.paths().iter().map(|&c| c as u8).collect();
    if paths.iter().all(|&c| c == 0) {
        return Some(bytes);
    }
    let at = bytes.windows(paths.len()).rposition(|window| window == paths)?;
    bytes.drain(at..at + paths.len());
    let mut set = |offset: usize, old: mjtSize, new: mjtSize| {
        let place = bytes.get_mut(HEADER + offset..)?.first_chunk_mut()?;
        (*place == old.to_le_bytes()).then(|| *place = new.to_le_bytes())
    };
    let taken = paths.len().next_multiple_of(ALIGNED) as mjtSize;
    let ffi = model.ffi();
    set(offset_of!(mjModel, npaths), ffi.npaths, 0)?;
    set(offset_of!(mjModel, nbuffer), ffi.nbuffer, ffi.nbuffer - taken)?;
    Some(bytes)
}
