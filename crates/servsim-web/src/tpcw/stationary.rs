//! Markov chains of interactions: shares in the long run, and how far the counts of a walk may be from them.

/// Chances of what follows each interaction.
pub type Chain = [[f64; 14]; 14];

/// The share of each state in the long run: the solution of `p = p P` whose parts add up to one, by elimination
/// (Grassmann, Taksar, Heyman 1985: no subtraction, so no digits are lost).
pub fn shares(chain: &Chain) -> [f64; 14] {
    let mut chain = *chain;
    for last in (1..14).rev() {
        let leaves: f64 = chain[last][..last].iter().sum();
        for row in 0..last {
            chain[row][last] /= leaves;
            for column in 0..last {
                chain[row][column] += chain[row][last] * chain[last][column];
            }
        }
    }
    let mut shares = [0.0; 14];
    shares[0] = 1.0;
    for state in 1..14 {
        shares[state] = (0..state).map(|before| shares[before] * chain[before][state]).sum();
    }
    let total: f64 = shares.iter().sum();
    shares.map(|share| share / total)
}

/// The variance of the number of visits to each state, for each step of a long walk. Steps depend on one another, so it
/// is not `p (1 - p)`: with `Z`, the inverse of `I - P + 1 p`, it is `p (2 Z - 1 - p)` (Kemeny and Snell 1960, 4.6).
pub fn variances(chain: &Chain, shares: &[f64; 14]) -> [f64; 14] {
    let mut left = [[0.0; 28]; 14];
    for row in 0..14 {
        for column in 0..14 {
            left[row][column] = f64::from(u8::from(row == column)) - chain[row][column] + shares[column];
        }
        left[row][14 + row] = 1.0;
    }
    // Gauss and Jordan, with the largest pivot of each column.
    for column in 0..14 {
        let pivot = (column..14).max_by(|&a, &b| left[a][column].abs().total_cmp(&left[b][column].abs()));
        left.swap(column, pivot.unwrap_or(column));
        let by = left[column][column];
        left[column].iter_mut().for_each(|value| *value /= by);
        let own = left[column];
        for (_, row) in left.iter_mut().enumerate().filter(|(row, _)| *row != column) {
            let factor = row[column];
            row.iter_mut().zip(own).for_each(|(value, own)| *value -= factor * own);
        }
    }
    std::array::from_fn(|state| shares[state] * (2.0 * left[state][14 + state] - 1.0 - shares[state]))
}
