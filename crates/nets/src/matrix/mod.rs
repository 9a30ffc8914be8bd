//! Matrix products: the one place that multiplies, so that another kernel can take its place.

mod dot;
mod kernel;
#[cfg(test)]
mod tests;

use std::cell::RefCell;

pub use dot::dot_rows;
use kernel::{Tiles, pack};

use crate::simd::arch;
use crate::threads::both;

/// A read-only matrix in a flat slice.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a> Matrix<'a> {
    /// `rows` × `cols`, row after row.
    pub fn new(data: &'a [f32], rows: usize, cols: usize) -> Self {
        assert_eq!(data.len(), rows * cols, "{rows} x {cols} numbers");
        Self { data, rows, cols, row_stride: cols, col_stride: 1 }
    }

    /// The same numbers with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// The columns from `first` to the last.
    pub fn columns_from(self, first: usize) -> Self {
        assert!(first <= self.cols, "column {first} of {}", self.cols);
        let start = (first * self.col_stride).min(self.data.len());
        Self { data: &self.data[start..], cols: self.cols - first, ..self }
    }

    fn holds_all(&self) -> bool {
        self.rows == 0
            || self.cols == 0
            || (self.rows - 1) * self.row_stride + (self.cols - 1) * self.col_stride
                < self.data.len()
    }
}

/// What becomes of each sum of products on its way into `out`.
#[derive(Debug, Clone, Copy)]
pub enum Then<'a> {
    /// `out = sum`
    Store,
    /// `out = sum + bias`, one bias for each column.
    Bias(&'a [f32]),
    /// `out = max(0, sum + bias)`
    BiasRelu(&'a [f32]),
    /// `out = sum` where this matrix, of the shape of `out`, is positive, and 0 elsewhere.
    WherePositive(&'a [f32]),
}

/// Multiplies `a·b` into `out`, which is stored row after row.
///
/// Every sum is taken in the order of the inner index: a row of `out` has the same bits whichever
/// other rows are asked for with it.
pub fn multiply(out: &mut [f32], a: Matrix, b: Matrix, then: Then) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    assert_eq!(k, b.rows, "inner sizes");
    assert_eq!(out.len(), m * n, "{m} x {n} numbers");
    assert!(a.holds_all() && b.holds_all(), "a matrix reaches beyond its slice");
    match then {
        Then::Store => {}
        Then::Bias(bias) | Then::BiasRelu(bias) => assert_eq!(bias.len(), n, "biases"),
        Then::WherePositive(y) => assert_eq!(y.len(), out.len(), "{m} x {n} numbers"),
    }
    let contiguous = a.col_stride == 1 && a.row_stride == k && b.row_stride == 1;
    if let (1, Then::Bias(bias), true) = (n, then, contiguous) {
        dot_rows(out, &a.data[..m * k], &b.data[..k]);
        out.iter_mut().for_each(|x| *x += bias[0]);
        return;
    }
    // Taken out: a thread that waits for others may begin another product meanwhile.
    let mut scratch = SCRATCH.with_borrow_mut(Vec::pop).unwrap_or_default();
    let [packed_a, packed_b] = &mut scratch;
    arch().dispatch(LayOut { out, a, b, then, packed_a, packed_b }).share();
    SCRATCH.with_borrow_mut(|all| all.push(scratch));
}

thread_local! {
    /// Where operands are laid out for the kernel. It grows to the largest product and stays.
    static SCRATCH: RefCell<Vec<[Vec<Line>; 2]>> = const { RefCell::new(Vec::new()) };
}

/// A cache line, so that no vector of a packed operand lies across two of them.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// The first `len` numbers of some lines, which are more if they must be.
fn numbers(lines: &mut Vec<Line>, len: usize) -> &mut [f32] {
    let count = len.div_ceil(16);
    if lines.len() < count {
        lines.resize(count, Line([0.0; 16]));
    }
    // SAFETY: a line is 16 numbers and nothing else, and at least `len` numbers are there.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), len) }
}

/// A product whose operands are yet to be laid out for the kernel.
struct LayOut<'a> {
    out: &'a mut [f32],
    a: Matrix<'a>,
    b: Matrix<'a>,
    then: Then<'a>,
    packed_a: &'a mut Vec<Line>,
    packed_b: &'a mut Vec<Line>,
}

impl<'a> pulp::WithSimd for LayOut<'a> {
    type Output = Rows<'a>;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) -> Rows<'a> {
        self.by::<S>(tile_rows::<S>())
    }
}

impl<'a> LayOut<'a> {
    /// For tiles of so many rows.
    #[inline(always)]
    fn by<S: pulp::Simd>(self, tile: usize) -> Rows<'a> {
        let Self { out, a, b, then, packed_a, packed_b } = self;
        let (m, n, k) = (a.rows, b.cols, a.cols);
        let width = 2 * S::F32_LANES;
        // Where few rows pass by, packing costs more than it brings.
        let (b, b_step, b_panel) = match m > 2 * tile || n % width != 0 || b.col_stride != 1 {
            true => (pack(b, width, packed_b), width, k * width),
            false => (b.data, b.row_stride, width),
        };
        let (packed, a, a_row, a_tile) = match a.col_stride {
            1 => (false, a.data, a.row_stride, a.row_stride * tile),
            _ => (true, pack(a.transposed(), tile, packed_a), 1, k * tile),
        };
        Rows { m, n, k, a, packed, tile, a_row, a_tile, b, b_step, b_panel, out, then }
    }
}

/// AVX-512 has registers for twice the rows.
const fn tile_rows<S: pulp::Simd>() -> usize {
    if S::F32_LANES >= 16 { 12 } else { 6 }
}

/// Some rows of a product, by tiles: a few rows of `a` times two vectors' width of `b`, all sums of
/// a tile in registers.
///
/// `b` lies in panels of that width, so that it streams from the second-level cache while the first
/// holds a few rows of `a`. `a` is read where it lies, unless its rows are not contiguous.
struct Rows<'a> {
    m: usize,
    n: usize,
    k: usize,
    a: &'a [f32],
    /// Whether numbers of a row of `a` lie `tile` apart, or one after the other.
    packed: bool,
    tile: usize,
    /// From one row of a tile to the next.
    a_row: usize,
    /// From one tile to the next.
    a_tile: usize,
    b: &'a [f32],
    b_step: usize,
    b_panel: usize,
    out: &'a mut [f32],
    then: Then<'a>,
}

impl Rows<'_> {
    /// Computes the rows, and leaves some to any thread of the pool that has nothing to do: threads
    /// are seldom equally fast, on a shared machine least of all.
    fn share(self) {
        // Some 25 microseconds: less is not worth handing over.
        const MULTIPLICATIONS: usize = 1 << 20;
        let tiles = self.m.div_ceil(self.tile);
        let small = self.m * self.n * self.k < 2 * MULTIPLICATIONS;
        let alone = rayon::current_thread_index().is_none() || rayon::current_num_threads() == 1;
        if tiles < 2 || small || alone {
            return arch().dispatch(self);
        }
        let (first, second) = self.split_at(tiles / 2);
        both(|| first.share(), || second.share());
    }

    /// The rows of the first tiles, and the rest.
    fn split_at(self, tiles: usize) -> (Self, Self) {
        let (rows, numbers) = (tiles * self.tile, tiles * self.tile * self.n);
        let (out, rest) = self.out.split_at_mut(numbers);
        let (then, rest_then) = match self.then {
            Then::WherePositive(y) => {
                let (y, rest) = y.split_at(numbers);
                (Then::WherePositive(y), Then::WherePositive(rest))
            }
            then => (then, then),
        };
        let rest_a = &self.a[tiles * self.a_tile..];
        let rest = Self { m: self.m - rows, a: rest_a, out: rest, then: rest_then, ..self };
        (Self { m: rows, a: self.a, out, then, ..rest }, rest)
    }
}

impl pulp::WithSimd for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        match (self.packed, tile_rows::<S>()) {
            (false, 6) => self.compute::<S, 6, 1>(simd),
            (true, 6) => self.compute::<S, 6, 6>(simd),
            (false, _) => self.compute::<S, 12, 1>(simd),
            (true, _) => self.compute::<S, 12, 12>(simd),
        }
    }
}

impl Rows<'_> {
    /// Tiles of up to `ROWS` rows; numbers of a row of `a` lie `STEP` apart.
    #[inline(always)]
    fn compute<S: pulp::Simd, const ROWS: usize, const STEP: usize>(self, simd: S) {
        let Self { m, n, k, a, a_row, a_tile, b, b_step, b_panel, out, then, .. } = self;
        let mut row = 0;
        while row < m {
            let a_start = row / ROWS * a_tile + row % ROWS * a_row;
            // SAFETY: `a` holds the rows of a tile, and `b` its columns, filled up to `width`. So
            // does the place where the tile is stored.
            row += unsafe {
                let tiles = Tiles {
                    k,
                    n,
                    a: a.as_ptr().wrapping_add(a_start),
                    a_row,
                    b: b.as_ptr(),
                    b_step,
                    b_panel,
                    row,
                    then,
                };
                match m - row {
                    12.. if ROWS == 12 => tiles.compute::<S, 12, STEP>(simd, out),
                    6.. => tiles.compute::<S, 6, STEP>(simd, out),
                    4.. => tiles.compute::<S, 4, STEP>(simd, out),
                    2.. => tiles.compute::<S, 2, STEP>(simd, out),
                    _ => tiles.compute::<S, 1, STEP>(simd, out),
                }
            };
        }
    }
}
