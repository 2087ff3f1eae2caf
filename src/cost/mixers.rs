//! From the token mixers of a layer to ops: attention, its index, and recurrent states.

use super::attention::{DecodeAttention, DecodeShape, PrefillAttention};
use super::collective::AllReduce;
use super::lower::Lowering;
use super::sparse::latent_reads;
use crate::model::{Gqa, Indexer, LinearAttention, Mamba2, Mla};

impl Lowering<'_> {
    fn decode(&self, name: &'static str, count: f64, latent: bool, shape: DecodeShape) -> DecodeAttention {
        let kv = self.deployment.kv_dtype;
        let (gpu, silicon) = (&self.target.gpu, &self.silicon);
        DecodeAttention::compile(self.tables, gpu, silicon, self.engine, name, count, latent, shape, kv, self.groups)
    }

    /// Decode context parallelism: each rank attends with the heads of its whole group to its part of the context. The
    /// queries are gathered and the outputs reduced (`values` per token of one rank's heads, in and out together); each
    /// moves what half an all-reduce of the group's values would.
    fn context_exchange(&mut self, count: f64, values: f64) {
        let ranks = self.deployment.context_parallel;
        if ranks == 1 {
            return;
        }
        let width = values * self.context / 4.0;
        let (gpu, node) = (&self.target.gpu, &self.target.node);
        let op = AllReduce::compile(self.tables, gpu, node, self.engine, 2.0 * count, ranks, width, self.groups);
        self.ops.exchanges.extend(op);
    }

    fn prefill(&self, count: f64, heads: f64, dims: f64, longest: f64) -> PrefillAttention {
        PrefillAttention::compile(self.tables, &self.target.gpu, &self.silicon, count, heads, dims, longest)
    }

    pub(super) fn gqa(&mut self, a: &Gqa, count: f64) {
        let heads = f64::from(a.heads) / self.attention_width;
        let kv_heads = (f64::from(a.kv_heads) / self.attention_width).max(1.0);
        let d = f64::from(a.head_dim);
        let dv = f64::from(a.v_head_dim.unwrap_or(a.head_dim));
        let query = heads * d * if a.output_gate { 2.0 } else { 1.0 };
        let key_value = kv_heads * if a.shared_kv { d } else { d + dv };
        match a.q_lora {
            Some(rank) => {
                let rank = f64::from(rank);
                self.attention_gemm("query and key-value down", count, (rank + key_value, self.hidden));
                self.attention_gemm("query up", count, (query, rank));
            }
            None => self.attention_gemm("QKV projection", count, (query + key_value, self.hidden)),
        }
        match &a.out_lora {
            Some(out) => {
                // Each block of heads has a product of its own; a rank has the blocks of its heads.
                let rows = f64::from(out.groups) / self.attention_width * f64::from(out.rank);
                self.attention_gemm("grouped output", count, (rows, f64::from(a.heads) * dv / f64::from(out.groups)));
                self.attention_gemm("attention output", count, (self.hidden, rows));
            }
            None => self.attention_gemm("attention output", count, (self.hidden, heads * dv)),
        }
        self.ops.kinds.gqa += count;
        let chosen = a.indexer.as_ref().map_or(f64::INFINITY, |index| f64::from(index.top_k));
        let attended = if a.compression.is_some() { f64::INFINITY } else { chosen };
        let (name, longest) = match a.window {
            Some(w) => ("window attention", f64::from(w) + 1.0),
            None => ("full attention", f64::INFINITY),
        };
        let spread = if a.window.is_some() { 1.0 } else { self.context };
        let shape = DecodeShape::gqa(heads * spread, kv_heads, d, dv, longest.min(attended));
        let decode = self.decode(name, count, false, shape).spread_over(spread);
        let longest = a.window.map_or(f64::INFINITY, f64::from).min(attended);
        let prefill = self.prefill(count, heads, d + dv, longest);
        if let Some(index) = a.indexer.as_ref().filter(|_| a.compression.is_none()) {
            self.index(index, count, 1.0, &decode, &prefill, None);
        }
        self.ops.decode.push(decode);
        self.ops.prefill.push(prefill);
        if let Some(ratio) = a.compression {
            // Beside the window: one entry for `ratio` tokens, all of them or those the index chooses.
            let ratio = f64::from(ratio);
            let shape = DecodeShape::gqa(heads, kv_heads, d, dv, chosen * ratio);
            let decode = self.decode("compressed attention", count, false, shape).spread_over(ratio);
            let prefill = self.prefill(count, heads, (d + dv) / ratio, chosen * ratio);
            if let Some(index) = &a.indexer {
                self.index(index, count, ratio, &decode, &prefill, Some(d / ratio));
            }
            self.ops.decode.push(decode);
            self.ops.prefill.push(prefill);
            self.ops.kinds.compressed += count;
        }
        if a.window.is_none() {
            self.context_exchange(count, heads * (d + dv));
        }
    }

    /// The index, with one key for `ratio` tokens, beside the attention it chooses for; `gathered`: values gathered per
    /// pair of tokens in prefill, where kernels gather.
    fn index(
        &mut self,
        index: &Indexer,
        count: f64,
        ratio: f64,
        decode: &DecodeAttention,
        prefill: &PrefillAttention,
        gathered: Option<f64>,
    ) {
        if let Some(values) = gathered {
            self.ops.prefill.push(prefill.gather(values, self.deployment.kv_dtype, &self.silicon));
        }
        if index.owns_index {
            self.ops.kinds.index += count;
            self.ops.decode.push(decode.index_scan(index, &self.silicon));
            self.ops.prefill.push(prefill.index_scores(index, ratio, &self.silicon));
        }
    }

    pub(super) fn mla(&mut self, a: &Mla, count: f64) {
        let heads = f64::from(a.heads) / self.attention_width;
        let (latent, rope) = (f64::from(a.kv_lora), f64::from(a.rope));
        let (nope, v) = (f64::from(a.nope), f64::from(a.v_dim));
        let query = heads * (nope + rope);
        match a.q_lora {
            Some(rank) => {
                // The down-projections are replicated on every rank.
                let rank = f64::from(rank);
                self.attention_gemm("query and latent down", count, (rank + latent + rope, self.hidden));
                self.attention_gemm("query up", count, (query, rank));
            }
            None => self.attention_gemm("query and latent down", count, (query + latent + rope, self.hidden)),
        }
        self.attention_gemm("key absorption", count, (heads * nope, latent));
        self.attention_gemm("value absorption", count, (heads * v, latent));
        self.attention_gemm("attention output", count, (self.hidden, heads * v));
        let longest = a.indexer.as_ref().map_or(f64::INFINITY, |index| f64::from(index.top_k));
        let shape = DecodeShape::mla(heads * self.context, latent, rope, longest);
        let decode = self.decode("latent attention", count, true, shape).spread_over(self.context);
        // Sparse kernels attend to the latent itself, dense ones to the keys and values it stands for.
        let dims = if a.indexer.is_some() { 2.0 * latent + rope } else { nope + rope + v };
        let prefill = self.prefill(count, heads, dims, longest);
        if let Some(index) = a.indexer.as_ref() {
            if index.owns_index {
                let (h, d) = (f64::from(index.heads), f64::from(index.head_dim));
                let rank = a.q_lora.map_or(self.hidden, f64::from);
                self.attention_gemm("index query", count, (h * d, rank));
                self.attention_gemm("index key and weights", count, (d + h, self.hidden));
            }
            self.index(index, count, 1.0, &decode, &prefill, Some(latent + rope));
        }
        let reads = latent_reads(heads * self.context, self.target.gpu.family);
        if reads > 1.0 {
            self.ops.decode.push(decode.reread(reads - 1.0));
        }
        self.ops.decode.push(decode);
        self.ops.prefill.push(prefill);
        self.context_exchange(count, heads * (2.0 * latent + rope));
        self.ops.kinds.mla += count;
    }

    pub(super) fn linear(&mut self, a: &LinearAttention, count: f64) {
        let key = f64::from(a.key_heads * a.key_dim);
        let value = f64::from(a.value_heads * a.value_dim);
        let input = (2.0 * key + 2.0 * value + 2.0 * f64::from(a.value_heads)) / self.attention_width;
        self.attention_gemm("recurrent input", count, (input, self.hidden));
        self.attention_gemm("recurrent output", count, (self.hidden, value / self.attention_width));
        let state = value * f64::from(a.key_dim) + (2.0 * key + value) * f64::from(a.conv_width);
        self.recurrent(count, state);
    }

    pub(super) fn mamba(&mut self, a: &Mamba2, count: f64) {
        let inner = f64::from(a.heads * a.head_dim);
        let groups = 2.0 * f64::from(a.groups * a.state);
        let input = (2.0 * inner + groups + f64::from(a.heads)) / self.attention_width;
        self.attention_gemm("recurrent input", count, (input, self.hidden));
        self.attention_gemm("recurrent output", count, (self.hidden, inner / self.attention_width));
        self.recurrent(count, inner * f64::from(a.state) + (inner + groups) * f64::from(a.conv_width));
    }

    /// A recurrent state of `values` values in 16 bits per sequence and layer.
    fn recurrent(&mut self, count: f64, values: f64) {
        let bytes = 2.0 * values / self.attention_width;
        self.ops.decode.push(DecodeAttention::recurrent(&self.silicon, "recurrent state", count, bytes, self.groups));
        self.ops.kinds.linear += count;
    }
}
