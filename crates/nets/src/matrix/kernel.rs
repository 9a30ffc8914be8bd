//! The kernel: operands laid out in panels, and tiles of a product whose sums stay in registers.

use std::hint::black_box;

use super::{Line, Matrix, Then, numbers};

/// Copies a matrix into panels of `width` columns, each row after row; zeros fill up the last.
#[inline(always)]
pub(super) fn pack<'a>(from: Matrix, width: usize, lines: &'a mut Vec<Line>) -> &'a [f32] {
    let panels = from.cols.div_ceil(width);
    let packed = numbers(lines, panels * width * from.rows);
    for (i, panel) in packed.chunks_exact_mut((width * from.rows).max(1)).enumerate() {
        let columns = width.min(from.cols - i * width);
        let data = &from.data[i * width * from.col_stride..];
        if columns < width {
            panel.fill(0.0);
            for (row, to) in panel.chunks_exact_mut(width).enumerate() {
                for (column, to) in to[..columns].iter_mut().enumerate() {
                    *to = data[row * from.row_stride + column * from.col_stride];
                }
            }
        } else if from.col_stride == 1 {
            for (row, to) in panel.chunks_exact_mut(width).enumerate() {
                to.copy_from_slice(&data[row * from.row_stride..][..width]);
            }
        } else {
            turn(data, from.col_stride, from.row_stride, width, panel);
        }
    }
    packed
}

/// Copies columns that lie `apart` into rows of `width` numbers. Where the numbers of a column follow each other,
/// by squares: one by one takes as long as a sixth of the product of a small batch.
#[inline(always)]
fn turn(data: &[f32], apart: usize, step: usize, width: usize, panel: &mut [f32]) {
    let rows = panel.len() / width;
    let squares = if step == 1 && width.is_multiple_of(SIDE) { rows / SIDE } else { 0 };
    for (i, to) in panel.chunks_exact_mut(SIDE * width).take(squares).enumerate() {
        for column in (0..width).step_by(SIDE) {
            let columns = std::array::from_fn(
                #[inline(always)]
                |j| *data[(column + j) * apart + i * SIDE..].first_chunk().expect("a side"),
            );
            for (row, to) in turned(columns).iter().zip(to.chunks_exact_mut(width)) {
                to[column..column + SIDE].copy_from_slice(row);
            }
        }
    }
    for column in 0..width {
        let data = &data[column * apart..];
        for (row, to) in panel.chunks_exact_mut(width).enumerate().skip(squares * SIDE) {
            to[column] = data[row * step];
        }
    }
}

/// The side of a square that is turned at once.
const SIDE: usize = 4;

/// Rows for columns.
#[inline(always)]
fn turned(columns: [[f32; SIDE]; SIDE]) -> [[f32; SIDE]; SIDE] {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: four vectors of four numbers, and every CPU of this kind has the instructions. The compiler does
    // not find them by itself.
    unsafe {
        use std::arch::x86_64::{__m128, _MM_TRANSPOSE4_PS};
        let [mut a, mut b, mut c, mut d]: [__m128; SIDE] = std::mem::transmute(columns);
        _MM_TRANSPOSE4_PS(&mut a, &mut b, &mut c, &mut d);
        std::mem::transmute([a, b, c, d])
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::array::from_fn(|row| std::array::from_fn(|column| columns[column][row]))
}

/// The tiles of a few rows.
pub(super) struct Tiles<'a> {
    pub k: usize,
    pub n: usize,
    pub a: *const f32,
    pub a_row: usize,
    pub b: *const f32,
    pub b_step: usize,
    pub b_panel: usize,
    pub row: usize,
    pub then: Then<'a>,
}

impl Tiles<'_> {
    /// Computes and stores `ROWS` rows; returns their number.
    ///
    /// # Safety
    /// `a` must hold `ROWS` rows of `k` numbers, `b` `k` rows of `n` numbers, filled up to the
    /// width of a tile, and `out` and what comes [`Then`] the numbers of the product.
    #[inline(always)]
    pub unsafe fn compute<S: pulp::Simd, const ROWS: usize, const STEP: usize>(
        self,
        simd: S,
        out: &mut [f32],
    ) -> usize {
        let Self { k, n, row, then, .. } = self;
        let width = 2 * S::F32_LANES;
        // The compiler must not know that the rows lie evenly, or it computes each address from
        // the last, again and again, and the multipliers wait.
        let start = |row: usize| black_box(self.a.wrapping_add(row * self.a_row));
        let rows: [_; ROWS] = std::array::from_fn(start);
        for (panel, column) in (0..n).step_by(width).enumerate() {
            let mut sums = [[simd.splat_f32s(0.0); 2]; ROWS];
            // SAFETY: the panel has `k` rows of `width` numbers, and so many has each row of `a`.
            unsafe {
                let mut b = self.b.wrapping_add(panel * self.b_panel);
                for i in 0..k {
                    let [left, right] = b.cast::<[S::f32s; 2]>().read_unaligned();
                    for (sums, row) in sums.iter_mut().zip(rows) {
                        let x = simd.splat_f32s(*row.add(i * STEP));
                        sums[0] = simd.mul_add_e_f32s(x, left, sums[0]);
                        sums[1] = simd.mul_add_e_f32s(x, right, sums[1]);
                    }
                    b = b.wrapping_add(self.b_step);
                }
            }
            let at = row * n + column;
            if n - column >= width {
                // SAFETY: the product reaches as far as this tile.
                unsafe { then.store(simd, sums, out.as_mut_ptr().add(at), at, n, column) };
            } else {
                // Cut off: the rest of the row, one by one.
                const WIDEST: usize = 32;
                let mut edge = [[0.0; WIDEST]; ROWS];
                // SAFETY: two vectors are never wider than the rows of `edge`.
                unsafe { Then::Store.store(simd, sums, edge.as_mut_ptr().cast(), 0, WIDEST, 0) };
                for (row, sums) in edge.iter().enumerate() {
                    for (i, &sum) in sums[..n - column].iter().enumerate() {
                        let at = at + row * n + i;
                        out[at] = then.one(sum, at, column + i);
                    }
                }
            }
        }
        ROWS
    }
}

impl Then<'_> {
    /// For one sum, which goes to `column` of the product, its `at`-th number.
    fn one(self, sum: f32, at: usize, column: usize) -> f32 {
        match self {
            Self::Store => sum,
            Self::Bias(bias) => sum + bias[column],
            Self::BiasRelu(bias) if sum + bias[column] < 0.0 => 0.0,
            Self::BiasRelu(bias) => sum + bias[column],
            Self::WherePositive(y) if y[at] > 0.0 => sum,
            Self::WherePositive(_) => 0.0,
        }
    }

    /// For the rows of a tile, which go to `out`, `n` apart: from `column` of the product on, its
    /// `at`-th number.
    ///
    /// # Safety
    /// The product, and so `out` from here on, must reach as far as the tile.
    #[inline(always)]
    unsafe fn store<S: pulp::Simd, const ROWS: usize>(
        self,
        simd: S,
        mut sums: [[S::f32s; 2]; ROWS],
        out: *mut f32,
        at: usize,
        n: usize,
        column: usize,
    ) {
        // Plain loops, one for each case: what the compiler does not inline here does not use
        // vectors at all.
        let zero = simd.splat_f32s(0.0);
        // SAFETY: what is loaded lies where the tile does, within the product or its biases.
        let load = |from: *const f32| unsafe { from.cast::<[S::f32s; 2]>().read_unaligned() };
        match self {
            Self::Store => {}
            Self::Bias(bias) => {
                let bias = load(bias.as_ptr().wrapping_add(column));
                for [left, right] in &mut sums {
                    *left = simd.add_f32s(*left, bias[0]);
                    *right = simd.add_f32s(*right, bias[1]);
                }
            }
            Self::BiasRelu(bias) => {
                let bias = load(bias.as_ptr().wrapping_add(column));
                for [left, right] in &mut sums {
                    // In this order, what is not a number stays so.
                    *left = simd.max_f32s(zero, simd.add_f32s(*left, bias[0]));
                    *right = simd.max_f32s(zero, simd.add_f32s(*right, bias[1]));
                }
            }
            Self::WherePositive(y) => {
                for (row, [left, right]) in sums.iter_mut().enumerate() {
                    let y = load(y.as_ptr().wrapping_add(at + row * n));
                    *left = simd.select_f32s(simd.greater_than_f32s(y[0], zero), *left, zero);
                    *right = simd.select_f32s(simd.greater_than_f32s(y[1], zero), *right, zero);
                }
            }
        }
        for (row, sums) in sums.into_iter().enumerate() {
            // SAFETY: as the caller promises.
            unsafe { out.add(row * n).cast::<[S::f32s; 2]>().write_unaligned(sums) };
        }
    }
}
