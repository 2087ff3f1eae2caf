//! What a probe timed, and the closed forms that its timings become. Times in µs.

use super::config::Dtype;
use crate::target::{Curve, Fit, RowsTiming};
use serde::{Deserialize, Serialize};

/// A product `(rows × k) · (k × n)`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GemmSample {
    /// Rows.
    pub rows: usize,
    /// Output columns.
    pub n: usize,
    /// Reduction length.
    pub k: usize,
    /// Time.
    pub us: f64,
}

/// Attention of one layer: `count` new tokens in each of `rows` sequences behind `context` cached ones, heads split and
/// joined and the cache written included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AttentionSample {
    /// Sequences.
    pub rows: usize,
    /// New tokens of each.
    pub count: usize,
    /// Cached tokens of each.
    pub context: usize,
    /// Heads.
    pub heads: usize,
    /// Dimensions of a head.
    pub d: usize,
    /// Time.
    pub us: f64,
}

/// Experts of one layer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ExpertSample {
    /// Tokens.
    pub tokens: usize,
    /// Experts.
    pub experts: usize,
    /// Hidden size.
    pub hidden: usize,
    /// Intermediate size.
    pub inter: usize,
    /// Time.
    pub us: f64,
}

/// The small kernels of one layer: two norms, two residual sums, the gate of the MLP.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SmallSample {
    /// Tokens.
    pub tokens: usize,
    /// Hidden size; the MLP is four times as wide.
    pub hidden: usize,
    /// Norm and residual sum of the attention part.
    pub attention_us: f64,
    /// Norm, gate and residual sum of the MLP.
    pub ffn_us: f64,
    /// Embedding and final norm, once per step.
    pub step_us: f64,
}

/// Everything a probe timed on one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// Device.
    pub device: String,
    /// Threads of the CPU.
    pub threads: Option<usize>,
    /// Clock: `wall` or `cpu`.
    pub clock: String,
    /// Number format that was asked for.
    pub dtype: Dtype,
    /// Number format in which the device holds and computes.
    pub held: Dtype,
    /// Bytes that pass between two uses of one weight or cache, so that each comes from memory as it does in a model.
    pub cold_bytes: usize,
    /// Bandwidth of `c = a + b` over large arrays, bytes/µs.
    pub copy_bytes_us: f64,
    /// Products.
    pub gemm: Vec<GemmSample>,
    /// Decode attention.
    pub decode: Vec<AttentionSample>,
    /// Prefill attention.
    pub prefill: Vec<AttentionSample>,
    /// Experts.
    pub experts: Vec<ExpertSample>,
    /// Small kernels.
    pub small: Vec<SmallSample>,
}

impl Samples {
    /// Bytes of one value.
    fn width(&self) -> f64 {
        self.held.bytes() as f64
    }

    /// Fastest stream, bytes/µs: the bandwidth that shares refer to. A sum writes what it did not read, so a product that
    /// only reads its weights can be faster.
    pub fn bandwidth(&self) -> f64 {
        let products = self.gemm.iter().map(|s| self.width() * (s.n * s.k) as f64 / s.us);
        let keys = self.decode.iter().map(|s| self.width() * 2.0 * (s.heads * s.d * s.rows * s.context) as f64 / s.us);
        products.chain(keys).fold(self.copy_bytes_us, f64::max)
    }

    /// Fastest product, flop/µs: the peak that shares refer to.
    pub fn peak(&self) -> f64 {
        let rate = |s: &GemmSample| 2.0 * (s.rows * s.n * s.k) as f64 / s.us;
        self.gemm.iter().map(rate).fold(0.0, f64::max)
    }

    /// Products: a law for each number of rows, and over all of them
    /// `t = floor + bytes / (share · bandwidth) + flops / (share · peak)`.
    pub fn gemm_curve(&self) -> Option<Curve> {
        let row = |s: &GemmSample| {
            let (m, n, k) = (s.rows as f64, s.n as f64, s.k as f64);
            (vec![1.0, self.width() * (n * k + m * k + m * n), 2.0 * m * n * k], s.us)
        };
        let rows: Vec<_> = self.gemm.iter().map(row).collect();
        let x = least_squares(&rows)?;
        let by_rows = self.by_rows()?;
        let predicted = |s: &GemmSample| {
            let law = by_rows.iter().find(|t| t.rows == s.rows as f64);
            law.map_or(0.0, |t| t.time(s.n as f64, s.k as f64))
        };
        let pairs: Vec<_> = self.gemm.iter().map(|s| (predicted(s), s.us)).collect();
        let fit = fit_of(&pairs);
        Some(Curve { by_rows, fit, ..self.curve(&x, &rows) })
    }

    /// `t = floor + a · N·K + b · N` at each number of rows.
    fn by_rows(&self) -> Option<Vec<RowsTiming>> {
        let mut counts: Vec<usize> = self.gemm.iter().map(|s| s.rows).collect();
        counts.sort_unstable();
        counts.dedup();
        let law = |rows: usize| {
            let of_count = self.gemm.iter().filter(|s| s.rows == rows);
            let terms: Vec<_> =
                of_count.map(|s| (vec![1.0, (s.n * s.k) as f64 / 1e6, s.n as f64 / 1e3], s.us)).collect();
            let x = least_squares(&terms)?;
            Some(RowsTiming { rows: rows as f64, floor_us: x[0], per_mweight_us: x[1], per_kcolumn_us: x[2] })
        };
        counts.into_iter().map(law).collect()
    }

    /// Decode attention: `t = floor + 2b · heads · d · rows · context / (share · bandwidth)`, keys and values of b bytes.
    pub fn decode_curve(&self) -> Option<Curve> {
        let row = |s: &AttentionSample| {
            let tokens = (s.rows * (s.context + s.count)) as f64;
            (vec![1.0, 2.0 * self.width() * (s.heads * s.d) as f64 * tokens], s.us)
        };
        let rows: Vec<_> = self.decode.iter().map(row).collect();
        let x = least_squares(&rows)?;
        // Bytes tell the whole time, so the other arm has none.
        Some(Curve { peak_share: 1e6, ..self.curve(&[x[0], x[1], 0.0], &rows) })
    }

    /// Prefill attention: `t = rows · 2 · heads · 2d · S²/2 / (share · peak) · (1 + half/S)`.
    pub fn prefill_curve(&self) -> Option<Curve> {
        let row = |s: &AttentionSample| {
            let (length, width) = (s.count as f64, (s.rows * s.heads * s.d) as f64);
            (vec![width * length, 2.0 * width * length * length], s.us)
        };
        let rows: Vec<_> = self.prefill.iter().map(row).collect();
        let x = least_squares(&rows)?;
        let per_flop = x[1].max(f64::MIN_POSITIVE);
        let curve = self.curve(&[0.0, 0.0, per_flop], &rows);
        Some(Curve { half_length: x[0] / (2.0 * per_flop), fit: fit(&rows, &x), ..curve })
    }

    /// Experts: `t = floor + expert · active + (active · weights + rows · operands) / (share · bandwidth) +
    /// flops / (share · peak)`: each expert that is touched launches kernels of its own, however many tokens it gets.
    pub fn expert_curve(&self) -> Option<Curve> {
        let row = |s: &ExpertSample| {
            let (t, e) = (s.tokens as f64, s.experts as f64);
            let (h, f) = (s.hidden as f64, s.inter as f64);
            let active = e * (1.0 - (1.0 - 1.0 / e).powf(t));
            let bytes = self.width() * (active * 3.0 * h * f + t * 3.0 * (h + f));
            (vec![1.0, active, bytes, t * 6.0 * h * f], s.us)
        };
        let rows: Vec<_> = self.experts.iter().map(row).collect();
        let x = least_squares(&rows)?;
        let curve = self.curve(&[x[0], x[2], x[3]], &rows);
        Some(Curve { per_expert_ns: 1e3 * x[1], fit: fit(&rows, &x), ..curve })
    }

    /// A curve of floor, time per byte and time per flop.
    fn curve(&self, x: &[f64], rows: &[(Vec<f64>, f64)]) -> Curve {
        let share = |per_unit: f64, rate: f64| if per_unit > 0.0 { (1.0 / (per_unit * rate)).min(1e6) } else { 1e6 };
        Curve {
            key: String::new(),
            floor_us: x[0],
            ramp_us: 0.0,
            hbm_share: share(x[1], self.bandwidth()),
            peak_share: share(x[2], self.peak()),
            overlap: 1.0,
            wave: 0.0,
            min_rows: 0.0,
            per_expert_ns: 0.0,
            per_ktoken_us: 0.0,
            extra_inter: 0.0,
            split: 0.0,
            half_length: 0.0,
            by_rows: Vec::new(),
            borrowed: false,
            fit: fit(rows, x),
            source: "timed by `inferasim workload probe`".into(),
        }
    }

    /// Times of the small kernels and what they grow by.
    pub fn small_kernels(&self) -> Option<SmallKernels> {
        let decode = self.small.iter().map(|s| s.tokens).min()?;
        let at = |of: fn(&SmallSample) -> f64| {
            let few: Vec<f64> = self.small.iter().filter(|s| s.tokens == decode).map(of).collect();
            super::latency::mean(&few)
        };
        let slope = |of: fn(&SmallSample) -> f64, unit: fn(&SmallSample) -> f64| {
            let rows: Vec<_> = self.small.iter().map(|s| (vec![1.0, s.tokens as f64 * unit(s)], of(s))).collect();
            least_squares(&rows).map(|x| x[1])
        };
        let per_value = slope(|s| s.attention_us + s.ffn_us, |s| s.hidden as f64)?;
        Some(SmallKernels {
            attention_us: at(|s| s.attention_us)?,
            ffn_us: at(|s| s.ffn_us)?,
            step_us: at(|s| s.step_us)?,
            passes: per_value * self.bandwidth() / 2.0,
            token_us: slope(|s| s.step_us, |_| 1.0)?,
        })
    }
}

/// Small kernels as the projector's constants need them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SmallKernels {
    /// Of the attention part of a layer in a decode step.
    pub attention_us: f64,
    /// Of its MLP.
    pub ffn_us: f64,
    /// Embedding and final norm of a decode step.
    pub step_us: f64,
    /// Passes over the activations of a layer, each 2 bytes × hidden size per token, at [`Samples::bandwidth`].
    pub passes: f64,
    /// Embedding and final norm per prompt token.
    pub token_us: f64,
}

/// How far the closed form is from the samples it was fitted on.
fn fit(rows: &[(Vec<f64>, f64)], x: &[f64]) -> Option<Fit> {
    let predicted = |terms: &[f64]| terms.iter().zip(x).map(|(a, b)| a * b).sum();
    fit_of(&rows.iter().map(|(terms, t)| (predicted(terms), *t)).collect::<Vec<_>>())
}

/// The same for pairs of what was predicted and what was timed.
fn fit_of(pairs: &[(f64, f64)]) -> Option<Fit> {
    let errors: Vec<f64> = pairs.iter().map(|(predicted, t)| 100.0 * (predicted / t - 1.0).abs()).collect();
    let round = |v: f64| (10.0 * v).round() / 10.0;
    Some(Fit {
        points: pairs.len() as u32,
        median_pct: round(super::latency::median(&errors)?),
        mean_pct: round(super::latency::mean(&errors)?),
    })
}

/// Coefficients ≥ 0 of the terms that make the least sum of squared relative errors; `None` without a solution.
///
/// Every subset of terms is solved by its normal equations; the best one whose coefficients are all ≥ 0 wins, which is
/// the exact solution for as few terms as there are here.
pub fn least_squares(rows: &[(Vec<f64>, f64)]) -> Option<Vec<f64>> {
    let terms = rows.first()?.0.len();
    if rows.iter().any(|(row, t)| *t <= 0.0 || row.iter().any(|v| !v.is_finite())) {
        return None;
    }
    let mut best: Option<(f64, Vec<f64>)> = None;
    for subset in 1u32..1 << terms {
        let chosen: Vec<usize> = (0..terms).filter(|at| subset >> at & 1 == 1).collect();
        let scale: Vec<f64> = chosen.iter().map(|at| rows.iter().map(|r| r.0[*at]).fold(0.0, f64::max)).collect();
        if scale.iter().any(|s| *s <= 0.0) {
            continue;
        }
        let column = |at: usize| rows.iter().map(move |(row, t)| row[at] / t);
        let design = nalgebra::DMatrix::from_fn(rows.len(), chosen.len(), |row, c| {
            column(chosen[c]).nth(row).unwrap_or_default() / scale[c]
        });
        let ones = nalgebra::DVector::from_element(rows.len(), 1.0);
        let Some(solution) = (design.transpose() * &design).lu().solve(&(design.transpose() * &ones)) else { continue };
        if solution.iter().any(|x| !x.is_finite() || *x < 0.0) {
            continue;
        }
        let error = (&design * &solution - &ones).norm_squared();
        if best.as_ref().is_none_or(|(least, _)| error < *least) {
            let mut x = vec![0.0; terms];
            chosen.iter().enumerate().for_each(|(c, at)| x[*at] = solution[c] / scale[c]);
            best = Some((error, x));
        }
    }
    best.map(|(_, x)| x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_law_is_found_again() {
        // t = 5 + 2a + 0.5b on a small grid.
        let rows: Vec<(Vec<f64>, f64)> = [(1.0, 1.0), (4.0, 1.0), (1.0, 9.0), (7.0, 3.0), (2.0, 20.0)]
            .map(|(a, b)| (vec![1.0, a, b], 5.0 + 2.0 * a + 0.5 * b))
            .to_vec();
        let x = least_squares(&rows).unwrap();
        for (found, expected) in x.iter().zip([5.0, 2.0, 0.5]) {
            assert!((found - expected).abs() < 1e-9, "{x:?}");
        }
    }

    #[test]
    fn no_coefficient_is_negative() {
        // t falls with a, so its coefficient is 0 and the constant takes the mean of 1/t over that of 1/t².
        let rows = [(vec![1.0, 1.0], 4.0), (vec![1.0, 2.0], 2.0)];
        let x = least_squares(&rows).unwrap();
        assert_eq!(x[1], 0.0);
        assert!((x[0] - (0.25 + 0.5) / (0.0625 + 0.25)).abs() < 1e-9, "{x:?}");
    }

    #[test]
    fn each_number_of_rows_has_a_law_of_its_own() {
        // One row: 3 µs + 7 µs per million weights + 2 µs per thousand columns; eight rows: 5, 40 and none.
        let law = |rows: usize, n: usize, k: usize| {
            let (weights, columns) = ((n * k) as f64 / 1e6, n as f64 / 1e3);
            if rows == 1 { 3.0 + 7.0 * weights + 2.0 * columns } else { 5.0 + 40.0 * weights }
        };
        let shapes = [(256, 512), (1024, 256), (512, 2048), (4096, 128)];
        let sample = |rows: usize| shapes.map(|(n, k)| GemmSample { rows, n, k, us: law(rows, n, k) });
        let samples = Samples {
            device: "cpu".into(),
            threads: Some(1),
            clock: "wall".into(),
            dtype: Dtype::Bfloat16,
            held: Dtype::Float32,
            cold_bytes: 1 << 20,
            copy_bytes_us: 1e3,
            gemm: [sample(8), sample(1)].concat(),
            decode: vec![],
            prefill: vec![],
            experts: vec![],
            small: vec![],
        };
        let curve = samples.gemm_curve().unwrap();
        assert_eq!(curve.by_rows.iter().map(|t| t.rows).collect::<Vec<_>>(), [1.0, 8.0]);
        for timing in &curve.by_rows {
            let expected = law(timing.rows as usize, 777, 333);
            assert!((timing.time(777.0, 333.0) / expected - 1.0).abs() < 1e-6, "{timing:?}");
        }
        assert_eq!(curve.fit.map(|f| (f.points, f.median_pct)), Some((8, 0.0)));
    }

    /// 10 µs a layer, 30 µs for each expert that is touched, 1 µs per 1000 bytes and per 10⁴ flops.
    #[test]
    fn an_expert_that_is_touched_has_a_time_of_its_own() {
        let law = |tokens: usize, experts: usize, hidden: usize, inter: usize| {
            let (t, e, h, f) = (tokens as f64, experts as f64, hidden as f64, inter as f64);
            let active = e * (1.0 - (1.0 - 1.0 / e).powf(t));
            let bytes = 4.0 * (active * 3.0 * h * f + t * 3.0 * (h + f));
            10.0 + 30.0 * active + bytes / 1e3 + t * 6.0 * h * f / 1e4
        };
        let shapes =
            [(1, 4, 64, 128), (6, 4, 64, 128), (96, 4, 64, 128), (8, 8, 32, 96), (200, 8, 32, 96), (40, 2, 128, 64)];
        let experts = shapes
            .map(|(t, e, h, f)| ExpertSample { tokens: t, experts: e, hidden: h, inter: f, us: law(t, e, h, f) })
            .to_vec();
        let gemm = vec![GemmSample { rows: 1, n: 64, k: 64, us: 10.0 }];
        let samples = Samples {
            device: "cpu".into(),
            threads: Some(1),
            clock: "wall".into(),
            dtype: Dtype::Float32,
            held: Dtype::Float32,
            cold_bytes: 1 << 20,
            copy_bytes_us: 1e3,
            gemm,
            decode: vec![],
            prefill: vec![],
            experts,
            small: vec![],
        };
        let curve = samples.expert_curve().unwrap();
        assert!((curve.floor_us - 10.0).abs() < 1e-3, "{curve:?}");
        assert!((curve.per_expert_ns - 30e3).abs() < 1.0, "{curve:?}");
        assert_eq!(curve.fit.map(|f| f.median_pct), Some(0.0));
    }

    #[test]
    fn nothing_comes_of_nothing() {
        assert_eq!(least_squares(&[]), None);
        assert_eq!(least_squares(&[(vec![1.0], 0.0)]), None);
    }
}
