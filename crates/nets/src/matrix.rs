//! Matrix products: the one place that multiplies, so that another kernel can take its place.

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

/// `out = a·b`, or `out += a·b`; `out` is stored row after row.
pub fn multiply(out: &mut [f32], a: Matrix, b: Matrix, add: bool) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    assert_eq!(k, b.rows, "inner sizes");
    assert_eq!(out.len(), m * n, "{m} x {n} numbers");
    assert!(a.holds_all() && b.holds_all(), "a matrix reaches beyond its slice");
    // SAFETY: every index the kernel forms lies in its slice by the three assertions above, and
    // `out` is borrowed mutably, so it overlaps neither input.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            add,
            a.data.as_ptr(),
            a.col_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.col_stride as isize,
            b.row_stride as isize,
            if add { 1.0 } else { 0.0 },
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// `out = weight·x + bias` for one vector, `weight` stored row after row.
pub fn multiply_one(out: &mut [f32], weight: &[f32], bias: &[f32], x: &[f32]) {
    assert_eq!(weight.len(), out.len() * x.len(), "weights");
    assert_eq!(bias.len(), out.len(), "biases");
    pulp::Arch::new().dispatch(MultiplyOne { out, weight, bias, x });
}

/// Written in vectors: the compiler does not reorder a sum by itself.
struct MultiplyOne<'a> {
    out: &'a mut [f32],
    weight: &'a [f32],
    bias: &'a [f32],
    x: &'a [f32],
}

impl pulp::WithSimd for MultiplyOne<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        // Four rows at a time share the loads of x and keep the multipliers busy.
        const ROWS: usize = 4;
        let Self { out, weight, bias, x } = self;
        let blocks = out.chunks_mut(ROWS).zip(bias.chunks(ROWS)).zip(weight.chunks(ROWS * x.len()));
        let (x_vectors, x_rest) = S::as_simd_f32s(x);
        for ((out, bias), weight) in blocks {
            // In a last block of fewer rows, the first stands in for those that are not there.
            let row = |i: usize| &weight[if i < out.len() { i } else { 0 } * x.len()..][..x.len()];
            let rows = [row(0), row(1), row(2), row(3)].map(|row| S::as_simd_f32s(row));
            let mut sums = [simd.splat_f32s(0.0); ROWS];
            for (i, x) in x_vectors.iter().enumerate() {
                for (sum, (row, _)) in sums.iter_mut().zip(&rows) {
                    *sum = simd.mul_add_e_f32s(row[i], *x, *sum);
                }
            }
            for (i, out) in out.iter_mut().enumerate() {
                let rest = rows[i].1.iter().zip(x_rest).fold(0.0, |sum, (w, x)| sum + w * x);
                *out = simd.reduce_sum_f32s(sums[i]) + rest + bias[i];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, seed: usize) -> Vec<f32> {
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

    #[test]
    fn products_of_every_layout_and_odd_sizes() {
        for (m, n, k) in [(1, 1, 1), (5, 3, 7), (17, 33, 65), (64, 1, 256), (31, 12, 300)] {
            let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
            for (a, b) in [
                (Matrix::new(&a, m, k), Matrix::new(&b, k, n)),
                (Matrix::new(&a, k, m).transposed(), Matrix::new(&b, k, n)),
                (Matrix::new(&a, m, k), Matrix::new(&b, n, k).transposed()),
            ] {
                let mut out = vec![1.0; m * n];
                let expected = reference(a, b);
                multiply(&mut out, a, b, true);
                let close = |out: &[f32], plus: f64| {
                    out.iter().zip(&expected).all(|(o, e)| (f64::from(*o) - e - plus).abs() < 1e-4)
                };
                assert!(close(&out, 1.0), "{m} {n} {k} added");
                multiply(&mut out, a, b, false);
                assert!(close(&out, 0.0), "{m} {n} {k}");
            }
        }
    }

    #[test]
    fn the_last_columns_of_a_matrix() {
        let (a, b) = (numbers(4 * 3, 1), numbers(3 * 10, 2));
        let (a, b) = (Matrix::new(&a, 4, 3), Matrix::new(&b, 3, 10));
        let mut all = vec![0.0; 40];
        multiply(&mut all, a, b, false);
        let mut last = vec![0.0; 16];
        multiply(&mut last, a, b.columns_from(6), false);
        let expected: Vec<f32> = all.chunks_exact(10).flat_map(|row| row[6..].to_vec()).collect();
        assert_eq!(last, expected);
    }

    #[test]
    fn one_vector_agrees_with_the_matrix_product() {
        for (outputs, inputs) in [(1, 1), (3, 17), (256, 256), (12, 100)] {
            let (weight, bias, x) =
                (numbers(outputs * inputs, 1), numbers(outputs, 2), numbers(inputs, 3));
            let mut out = vec![0.0; outputs];
            multiply_one(&mut out, &weight, &bias, &x);
            let expected =
                reference(Matrix::new(&weight, outputs, inputs), Matrix::new(&x, inputs, 1));
            for i in 0..outputs {
                let expected = expected[i] + f64::from(bias[i]);
                assert!((f64::from(out[i]) - expected).abs() < 1e-5, "{outputs} {inputs}");
            }
        }
    }
}
