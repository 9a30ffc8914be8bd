//! Products of every layout, on any number of threads, against the formula.

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
    (0..a.rows).flat_map(|r| (0..b.cols).map(move |c| (r, c))).map(|(r, c)| product(r, c)).collect()
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
        multiply(&mut out, Matrix::new(&[f32::NAN; 3], 3, 1), Matrix::new(&[1.0; 20], 1, 20), then);
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
        let expected = reference(Matrix::new(&weight, outputs, inputs), Matrix::new(&x, inputs, 1));
        for i in 0..outputs {
            assert!((f64::from(out[i]) - expected[i]).abs() < 1e-5, "{outputs} {inputs}");
        }
    }
}
