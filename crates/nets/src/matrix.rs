//! Matrix products: the one place that multiplies, so that another kernel can take its place.

use std::cell::RefCell;
use std::hint::black_box;

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

/// Copies a matrix into panels of `width` columns, each row after row; zeros fill up the last.
#[inline(always)]
fn pack<'a>(from: Matrix, width: usize, lines: &'a mut Vec<Line>) -> &'a [f32] {
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
            for column in 0..width {
                let data = &data[column * from.col_stride..];
                for (row, to) in panel.chunks_exact_mut(width).enumerate() {
                    to[column] = data[row * from.row_stride];
                }
            }
        }
    }
    packed
}

/// The tiles of a few rows.
struct Tiles<'a> {
    k: usize,
    n: usize,
    a: *const f32,
    a_row: usize,
    b: *const f32,
    b_step: usize,
    b_panel: usize,
    row: usize,
    then: Then<'a>,
}

impl Tiles<'_> {
    /// Computes and stores `ROWS` rows; returns their number.
    ///
    /// # Safety
    /// `a` must hold `ROWS` rows of `k` numbers, `b` `k` rows of `n` numbers, filled up to the
    /// width of a tile, and `out` and what comes [`Then`] the numbers of the product.
    #[inline(always)]
    unsafe fn compute<S: pulp::Simd, const ROWS: usize, const STEP: usize>(
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

/// `out = rows·x` for one vector: the product of every row with `x`.
pub fn dot_rows(out: &mut [f32], rows: &[f32], x: &[f32]) {
    assert_eq!(rows.len(), out.len() * x.len(), "rows");
    arch().dispatch(DotRows { out, rows, x });
}

/// Written in vectors: the compiler does not reorder a sum by itself.
struct DotRows<'a> {
    out: &'a mut [f32],
    rows: &'a [f32],
    x: &'a [f32],
}

impl pulp::WithSimd for DotRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        // Four rows at a time share the loads of x and keep the multipliers busy.
        const ROWS: usize = 4;
        let Self { out, rows, x } = self;
        let blocks = out.chunks_mut(ROWS).zip(rows.chunks((ROWS * x.len()).max(1)));
        let (x_vectors, x_rest) = S::as_simd_f32s(x);
        for (out, block) in blocks {
            // In a last block of fewer rows, the first stands in for those that are not there.
            let row = |i: usize| &block[if i < out.len() { i } else { 0 } * x.len()..][..x.len()];
            let rows = [row(0), row(1), row(2), row(3)].map(|row| S::as_simd_f32s(row));
            let mut sums = [simd.splat_f32s(0.0); ROWS];
            for (i, x) in x_vectors.iter().enumerate() {
                for (sum, (row, _)) in sums.iter_mut().zip(&rows) {
                    *sum = simd.mul_add_e_f32s(row[i], *x, *sum);
                }
            }
            for (i, out) in out.iter_mut().enumerate() {
                let rest = rows[i].1.iter().zip(x_rest).fold(0.0, |sum, (w, x)| sum + w * x);
                *out = simd.reduce_sum_f32s(sums[i]) + rest;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pulp::Simd as _;
    use rayon::prelude::*;

    use super::*;

    fn sequence(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| (((i * 7919 + seed * 104729) % 1009) as f32 - 504.0) / 504.0).collect()
    }

    fn reference(a: Matrix, b: Matrix) -> Vec<f64> {
        let at =
            |m: &Matrix, r: usize, c: usize| f64::from(m.data[r * m.row_stride + c * m.col_stride]);
        let product = |r, c| (0..a.cols).map(|i| at(&a, r, i) * at(&b, i, c)).sum();
        (0..a.rows)
            .flat_map(|r| (0..b.cols).map(move |c| (r, c)))
            .map(|(r, c)| product(r, c))
            .collect()
    }

    /// The kernel for AVX-512, on whatever is here.
    struct Tall<'a>(LayOut<'a>);

    impl pulp::WithSimd for Tall<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: pulp::Simd>(self, simd: S) {
            let rows = self.0.by::<S>(12);
            match rows.packed {
                false => rows.compute::<S, 12, 1>(simd),
                true => rows.compute::<S, 12, 12>(simd),
            }
        }
    }

    #[test]
    fn products_of_every_layout_kernel_and_odd_sizes() {
        for (m, n, k) in [
            (1, 1, 1),
            (5, 3, 7),
            (20, 64, 1),
            (64, 20, 1),
            (17, 33, 65),
            (64, 1, 256),
            (31, 12, 300),
            (150, 48, 200),
        ] {
            let (a, b) = (sequence(m * k, 1), sequence(k * n, 2));
            let (bias, y) = (sequence(n, 3), sequence(m * n, 4));
            for (a, b) in [
                (Matrix::new(&a, m, k), Matrix::new(&b, k, n)),
                (Matrix::new(&a, k, m).transposed(), Matrix::new(&b, k, n)),
                (Matrix::new(&a, m, k), Matrix::new(&b, n, k).transposed()),
                (Matrix::new(&a, k, m).transposed(), Matrix::new(&b, n, k).transposed()),
            ] {
                let sums = reference(a, b);
                let with_bias = |i: usize| sums[i] + f64::from(bias[i % n]);
                let where_positive = |i: usize| if y[i] > 0.0 { sums[i] } else { 0.0 };
                let cases: [(Then, &dyn Fn(usize) -> f64); 4] = [
                    (Then::Store, &|i| sums[i]),
                    (Then::Bias(&bias), &with_bias),
                    (Then::BiasRelu(&bias), &|i| with_bias(i).max(0.0)),
                    (Then::WherePositive(&y), &where_positive),
                ];
                for (then, expected) in cases {
                    let mut results = [(); 3].map(|()| vec![f32::NAN; m * n]);
                    let [found, narrowest, tall] = &mut results;
                    multiply(found, a, b, then);
                    let [packed_a, packed_b] = &mut [Vec::new(), Vec::new()];
                    let scalar = pulp::Scalar::new();
                    let job = LayOut { out: narrowest, a, b, then, packed_a, packed_b };
                    scalar.vectorize(scalar.vectorize(job));
                    let job = LayOut { out: tall, a, b, then, packed_a, packed_b };
                    arch().dispatch(Tall(job));
                    for (kernel, out) in results.iter().enumerate() {
                        for (i, x) in out.iter().enumerate() {
                            let error = (f64::from(*x) - expected(i)).abs();
                            let bound = 1e-6 * (k + 10) as f64;
                            assert!(error < bound, "{kernel}: {m} x {n} x {k}, {i}, {then:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_does_not_depend_on_the_others() {
        let (a, b) = (sequence(37 * 50, 1), sequence(50 * 40, 2));
        let b = Matrix::new(&b, 50, 40);
        let mut all = vec![0.0; 37 * 40];
        multiply(&mut all, Matrix::new(&a, 37, 50), b, Then::Store);
        for (rows, row) in [(1, 36), (2, 20), (13, 24)] {
            let mut some = vec![0.0; rows * 40];
            let a = &a[row * 50..(row + rows) * 50];
            multiply(&mut some, Matrix::new(a, rows, 50), b, Then::Store);
            assert_eq!(some, all[row * 40..(row + rows) * 40]);
        }
    }

    #[test]
    fn products_shared_by_threads_have_the_same_bits() {
        let (m, n, k) = (203, 250, 256);
        let (a, b) = (sequence(m * k, 1), sequence(k * n, 2));
        let (bias, y, b) = (sequence(n, 3), sequence(m * n, 4), Matrix::new(&b, k, n));
        let jobs: Vec<(Matrix, Then)> = [Matrix::new(&a, m, k), Matrix::new(&a, k, m).transposed()]
            .into_iter()
            .flat_map(|a| {
                [Then::Store, Then::Bias(&bias), Then::BiasRelu(&bias), Then::WherePositive(&y)]
                    .map(|then| (a, then))
            })
            .collect();
        let product = |&(a, then): &(Matrix, Then)| {
            let mut out = vec![f32::NAN; m * n];
            multiply(&mut out, a, b, then);
            out.iter().map(|x| x.to_bits()).collect()
        };
        let alone: Vec<Vec<u32>> = jobs.iter().map(product).collect();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        for _ in 0..20 {
            // One after the other, which leaves rows to idle threads; then all at once, so that a
            // thread that waits for its rows begins another product.
            assert!(pool.install(|| jobs.iter().map(product).collect::<Vec<_>>()) == alone);
            assert!(pool.install(|| jobs.par_iter().map(product).collect::<Vec<_>>()) == alone);
        }
    }

    #[test]
    fn what_is_not_a_number_shows() {
        for then in [Then::Store, Then::Bias(&[0.0; 20]), Then::BiasRelu(&[0.0; 20])] {
            let mut out = [0.0; 60];
            multiply(
                &mut out,
                Matrix::new(&[f32::NAN; 3], 3, 1),
                Matrix::new(&[1.0; 20], 1, 20),
                then,
            );
            assert!(out.iter().all(|x| x.is_nan()), "{then:?}");
        }
    }

    #[test]
    fn the_last_columns_of_a_matrix() {
        let (a, b) = (sequence(4 * 3, 1), sequence(3 * 10, 2));
        let (a, b) = (Matrix::new(&a, 4, 3), Matrix::new(&b, 3, 10));
        let mut all = vec![0.0; 40];
        multiply(&mut all, a, b, Then::Store);
        let mut last = vec![0.0; 16];
        multiply(&mut last, a, b.columns_from(6), Then::Store);
        let expected: Vec<f32> = all.chunks_exact(10).flat_map(|row| row[6..].to_vec()).collect();
        assert_eq!(last, expected);
    }

    #[test]
    fn one_vector_agrees_with_the_matrix_product() {
        for (outputs, inputs) in [(1, 1), (3, 17), (256, 256), (12, 100)] {
            let (weight, x) = (sequence(outputs * inputs, 1), sequence(inputs, 3));
            let mut out = vec![0.0; outputs];
            dot_rows(&mut out, &weight, &x);
            let expected =
                reference(Matrix::new(&weight, outputs, inputs), Matrix::new(&x, inputs, 1));
            for i in 0..outputs {
                assert!((f64::from(out[i]) - expected[i]).abs() < 1e-5, "{outputs} {inputs}");
            }
        }
    }
}
