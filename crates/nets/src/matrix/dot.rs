//! One vector times every row of a matrix: what a policy does at every step.

use crate::simd::arch;

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
