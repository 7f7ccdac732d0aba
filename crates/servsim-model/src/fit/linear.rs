//! Small dense linear algebra for estimation: Cholesky solution, inversion, and eigenvalues of a
//! symmetric matrix by Jacobi rotations (Golub and Van Loan, "Matrix Computations", 8.5). Sizes are
//! the number of classes, so plain loops do.

/// A square matrix by rows.
pub type Matrix = Vec<Vec<f64>>;

/// Inverse of a symmetric positive-definite matrix; `None` when it is not.
pub fn invert(a: &Matrix) -> Option<Matrix> {
    let n = a.len();
    let l = cholesky(a)?;
    let column = |j: usize| {
        let unit: Vec<f64> = (0..n).map(|i| f64::from(u8::from(i == j))).collect();
        back_substitute(&l, &unit)
    };
    let columns: Vec<Vec<f64>> = (0..n).map(column).collect();
    Some((0..n).map(|i| (0..n).map(|j| columns[j][i]).collect()).collect())
}

/// Solves `a x = b` for symmetric positive-definite `a`.
pub fn solve(a: &Matrix, b: &[f64]) -> Option<Vec<f64>> {
    Some(back_substitute(&cholesky(a)?, b))
}

fn cholesky(a: &Matrix) -> Option<Matrix> {
    let n = a.len();
    let mut l = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..=i {
            let sum: f64 = a[i][j] - (0..j).map(|k| l[i][k] * l[j][k]).sum::<f64>();
            if i == j {
                if sum <= a[i][i] * 1e-14 || !sum.is_finite() {
                    return None;
                }
                l[i][i] = sum.sqrt();
            } else {
                l[i][j] = sum / l[j][j];
            }
        }
    }
    Some(l)
}

fn back_substitute(l: &Matrix, b: &[f64]) -> Vec<f64> {
    let n = l.len();
    let mut y = vec![0.0; n];
    for i in 0..n {
        y[i] = (b[i] - (0..i).map(|k| l[i][k] * y[k]).sum::<f64>()) / l[i][i];
    }
    let mut x = vec![0.0; n];
    for i in (0..n).rev() {
        x[i] = (y[i] - (i + 1..n).map(|k| l[k][i] * x[k]).sum::<f64>()) / l[i][i];
    }
    x
}

/// Eigenvalues with their unit vectors, smallest first, of a symmetric matrix.
pub fn eigen(a: &Matrix) -> Vec<(f64, Vec<f64>)> {
    let n = a.len();
    let mut a = a.clone();
    let mut vectors: Matrix = (0..n).map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    for _ in 0..100 {
        let off: f64 = (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| a[i][j].powi(2)).sum();
        if off < 1e-30 {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                rotate(&mut a, &mut vectors, p, q);
            }
        }
    }
    let mut pairs: Vec<(f64, Vec<f64>)> =
        (0..n).map(|j| (a[j][j], (0..n).map(|i| vectors[i][j]).collect())).collect();
    pairs.sort_by(|x, y| x.0.total_cmp(&y.0));
    pairs
}

fn rotate(a: &mut Matrix, vectors: &mut Matrix, p: usize, q: usize) {
    if a[p][q].abs() < 1e-300 {
        return;
    }
    let theta = (a[q][q] - a[p][p]) / (2.0 * a[p][q]);
    let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
    let t = if theta == 0.0 { 1.0 } else { t };
    let c = 1.0 / (t * t + 1.0).sqrt();
    let s = t * c;
    for k in 0..a.len() {
        let (x, y) = (a[k][p], a[k][q]);
        (a[k][p], a[k][q]) = (c * x - s * y, s * x + c * y);
    }
    for k in 0..a.len() {
        let (x, y) = (a[p][k], a[q][k]);
        (a[p][k], a[q][k]) = (c * x - s * y, s * x + c * y);
    }
    for row in vectors.iter_mut() {
        let (x, y) = (row[p], row[q]);
        (row[p], row[q]) = (c * x - s * y, s * x + c * y);
    }
}
