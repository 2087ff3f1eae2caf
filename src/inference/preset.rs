//! The workload's decoder as a model the projector reads.

use super::config::{Config, ModelKind, ModelShape};
use crate::model::{Architecture, Checkpoint, Ffn, Formats, Gqa, LayerGroup, Mixer, Model, Moe};
use crate::{Error, Result};

/// Model preset of a configuration's decoder, in the format its device holds.
///
/// # Errors
/// A topology the projector has no formulas for, and a shape beyond 32 bits.
pub fn model_of(config: &Config) -> Result<Model> {
    let shape = &config.model;
    if shape.kind != ModelKind::DecoderTransformer {
        return Err(Error::input(
            format!("model.kind: {}", shape.kind.word()),
            "the projector prices causal transformers",
            "Use model.kind: decoder_transformer",
        ));
    }
    let format = config.dtype.held_on(config.device.kind()).weight_format();
    let formats = Formats { embedding: format, lm_head: format, ..Formats::uniform(format) };
    let name = name_of(shape);
    Ok(Model {
        architecture: architecture(shape, &name)?,
        checkpoints: vec![Checkpoint { dtype: format.to_string(), id: name, formats }],
        published: None,
        aliases: Vec::new(),
        source: "configuration of the local inference workload".into(),
        notes: Vec::new(),
    })
}

fn name_of(shape: &ModelShape) -> String {
    let experts = if shape.num_experts > 1 { format!("-e{}", shape.num_experts) } else { String::new() };
    format!("decoder-h{}-l{}-f{}{experts}", shape.hidden_size, shape.num_layers, shape.ffn_size)
}

fn architecture(shape: &ModelShape, name: &str) -> Result<Architecture> {
    let number = |key: &str, value: usize| {
        u32::try_from(value)
            .map_err(|_| Error::input(format!("model.{key}"), format!("is {value}"), "Give a smaller one"))
    };
    let heads = number("num_heads", shape.num_heads)?;
    let inter = number("ffn_size", shape.ffn_size)?;
    let ffn = if shape.num_experts > 1 {
        Ffn::Moe(Moe {
            experts: number("num_experts", shape.num_experts)?,
            top_k: 1,
            inter,
            shared_inter: 0,
            gated: true,
            bias: false,
            latent: None,
            shared_gate: false,
        })
    } else {
        Ffn::Dense { inter, gated: true }
    };
    let attention = Gqa {
        heads,
        kv_heads: heads,
        head_dim: number("hidden_size", shape.head_dim())?,
        v_head_dim: None,
        window: None,
        qkv_bias: false,
        out_bias: false,
        qk_norm: false,
        sinks: false,
        output_gate: false,
        q_lora: None,
        out_lora: None,
        compression: None,
        shared_kv: false,
        indexer: None,
    };
    Ok(Architecture {
        name: name.to_string(),
        family: "InferenceWorkloadDecoder".into(),
        hidden: number("hidden_size", shape.hidden_size)?,
        vocab: number("vocab_size", shape.vocab_size)?,
        tied_embeddings: true,
        max_context: 1_048_576,
        layers: vec![LayerGroup { count: number("num_layers", shape.num_layers)?, mixer: Mixer::Gqa(attention), ffn }],
        mtp_layers: 0,
        encoder_parameters: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::super::config::Device;
    use super::*;

    #[test]
    fn the_preset_has_the_parameters_of_the_workload_up_to_its_norms_biases() {
        // The workload's layer norms carry a bias of H each, which a preset does not count.
        for experts in [1, 4] {
            let config =
                Config { model: ModelShape { num_experts: experts, ..Default::default() }, ..Default::default() };
            let model = model_of(&config).unwrap();
            let counted = model.architecture.parameters().total() as f64;
            let stated = config.model.parameter_count() as f64;
            assert!((counted / stated - 1.0).abs() < 1e-3, "{counted} {stated}");
        }
    }

    #[test]
    fn what_the_projector_cannot_price_is_refused() {
        let mlp = Config { model: ModelShape { kind: ModelKind::Mlp, ..Default::default() }, ..Default::default() };
        assert!(model_of(&mlp).unwrap_err().to_string().contains("decoder_transformer"));
    }

    #[test]
    fn weights_are_priced_in_the_format_their_device_holds() {
        let dtype = |device| {
            let config = Config { device, ..Default::default() };
            model_of(&config).unwrap().checkpoints.remove(0).dtype
        };
        assert_eq!((dtype(Device::Cpu).as_str(), dtype(Device::Cuda).as_str()), ("f32", "bf16"));
    }
}
