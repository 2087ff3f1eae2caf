//! Are two runs the same, bit for bit?

/// Order-sensitive checksum of values by their bit patterns, `width` bytes each, little endian.
///
/// `h ← (h xor bits) · 0x100000001b3`, wrapping in 64 bits, from 0xcbf29ce484222325 (the FNV-1a scheme over whole
/// values), read as a signed integer. Two values that compare equal but differ in their bits (0.0 and −0.0) differ here,
/// and so do the same values in another order.
pub fn checksum(bytes: &[u8], width: usize) -> i64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for value in bytes.chunks(width.max(1)) {
        let bits = value.iter().rev().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        hash = (hash ^ bits).wrapping_mul(0x0100_0000_01b3);
    }
    hash as i64
}

/// Names of what a step's logits and output show, as failure records spell them.
pub fn problems(nan_logits: bool, infinite_logits: bool, nonfinite_output: bool) -> Vec<String> {
    let found = [(nan_logits, "nan_logits"), (infinite_logits, "inf_logits"), (nonfinite_output, "non_finite_output")];
    found.into_iter().filter(|(is, _)| *is).map(|(_, name)| name.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_values_follow_fnv_1a() {
        // Published test vectors of FNV-1a 64: "" , "a" and "foobar".
        assert_eq!(checksum(b"", 1) as u64, 0xcbf29ce484222325);
        assert_eq!(checksum(b"a", 1) as u64, 0xaf63dc4c8601ec8c);
        assert_eq!(checksum(b"foobar", 1) as u64, 0x85944171f73967e8);
    }

    #[test]
    fn bits_and_order_count() {
        let of = |values: &[f32]| {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            checksum(&bytes, 4)
        };
        assert_eq!(of(&[1.0, 2.0]), of(&[1.0, 2.0]));
        assert_ne!(of(&[1.0, 2.0]), of(&[2.0, 1.0]));
        assert_ne!(of(&[0.0]), of(&[-0.0]));
    }
}
