//! Which vector instructions are used: the best that this CPU has, unless fewer are asked for.
//!
//! Sums of products depend in their last bits on how many numbers are multiplied at once. With
//! [`limit`], a wider CPU computes what a narrower one does, to the bit.

use std::sync::atomic::{AtomicU8, Ordering};

use pulp::Arch;

/// A kind of vector instructions, narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One number at a time.
    Scalar,
    /// Whatever this kind of CPU has, where there is only one kind.
    Native,
    /// AVX2 and FMA: 8 numbers.
    Avx2,
    /// AVX-512: 16 numbers.
    Avx512,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Scalar, Self::Native, Self::Avx2, Self::Avx512];

    /// The name used in text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Native => std::env::consts::ARCH,
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    fn arch(self) -> Option<Arch> {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => pulp::x86::V4::try_new().map(Arch::V4),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => pulp::x86::V3::try_new().map(Arch::V3),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Native => Some(Arch::new()),
            Self::Scalar => Some(Arch::Scalar),
            _ => None,
        }
    }
}

/// Nothing asked for.
const BEST: u8 = u8::MAX;
static LIMIT: AtomicU8 = AtomicU8::new(BEST);

/// The kinds that this CPU has.
pub fn available() -> Vec<Kind> {
    Kind::ALL.into_iter().filter(|kind| kind.arch().is_some()).collect()
}

/// The kind in use.
pub fn kind() -> Kind {
    let limit = LIMIT.load(Ordering::Relaxed);
    let best = || available().into_iter().max().expect("scalar is always there");
    Kind::ALL.get(usize::from(limit)).copied().unwrap_or_else(best)
}

/// Uses this kind from now on in the whole process, or with `None` the best; returns whether this
/// CPU has it.
pub fn limit(kind: Option<Kind>) -> bool {
    let has = kind.is_none_or(|kind| kind.arch().is_some());
    if has {
        LIMIT.store(kind.map_or(BEST, |kind| kind as u8), Ordering::Relaxed);
    }
    has
}

/// What to dispatch on.
#[inline]
pub(crate) fn arch() -> Arch {
    match LIMIT.load(Ordering::Relaxed) {
        BEST => Arch::new(),
        limit => Kind::ALL[usize::from(limit)].arch().unwrap_or_default(),
    }
}

/// Runs a loop compiled for these instructions, without special compiler flags.
///
/// The closure must be marked `#[inline(always)]` and hold plain loops: what is not inlined is
/// compiled for the oldest CPU. The loop is autovectorised; products and sums stay separate, so that
/// the result is the same whichever instructions are found.
#[inline(always)]
pub fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    arch().dispatch(work)
}
