//! Which pools does a published row of disaggregated serving describe?

use super::measured::MeasuredPoint;

/// One pool as recorded: instances, GPUs of each, and how they are split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedPool {
    /// Instances.
    pub instances: u32,
    /// GPUs of one instance.
    pub width: u32,
    /// Expert-parallel groups.
    pub ep: u32,
    /// Attention runs data-parallel over the instance.
    pub dp_attention: bool,
}

/// Reads `xPyD; prefill N GPU (tpA epB dpa=bool), decode M GPU (tpC epD dpa=bool)`. N and M count all GPUs of a pool, tp
/// and ep one instance. Without parentheses both pools are as the row's own columns say.
///
/// # Errors
/// The row records no layout, or one that does not divide its GPUs.
pub fn recorded(point: &MeasuredPoint) -> Result<(RecordedPool, RecordedPool), String> {
    let unknown = || "disaggregated without a recorded layout".to_string();
    let (counts, pools) = point.disagg.split_once(';').ok_or_else(unknown)?;
    let (x, y) = counts.trim().trim_end_matches('D').split_once('P').ok_or_else(unknown)?;
    let (x, y) = (x.parse::<u32>().map_err(|_| unknown())?, y.parse::<u32>().map_err(|_| unknown())?);
    let at = pools.find("decode").ok_or_else(unknown)?;
    let (prefill, decode) = pools.split_at(at);
    let pool = |text: &str, instances: u32| -> Result<RecordedPool, String> {
        let words: Vec<&str> = text.split([' ', '(', ')', ',']).filter(|w| !w.is_empty()).collect();
        let gpus: u32 = words.get(1).and_then(|w| w.parse().ok()).ok_or_else(unknown)?;
        if instances == 0 || gpus == 0 || !gpus.is_multiple_of(instances) {
            return Err(format!("{gpus} GPUs do not divide into {instances} instances"));
        }
        let number = |prefix: &str| words.iter().find_map(|w| w.strip_prefix(prefix)?.parse::<u32>().ok());
        let width = gpus / instances;
        let tp = number("tp").or(point.tp).unwrap_or(width);
        let dp_attention = match words.iter().find_map(|w| w.strip_prefix("dpa=")) {
            Some(flag) => flag == "true",
            None => point.dp_attention,
        };
        // An instance of several GPUs whose tensor width is one, or that says so, runs attention data-parallel.
        let dp_attention = width > 1 && (dp_attention || tp == 1);
        let named = number("ep").or(point.ep).unwrap_or(1);
        // Data-parallel attention over ranks that share experts: the experts are spread over all of them.
        let ep = if dp_attention && tp == 1 { width } else { named.clamp(1, width) };
        Ok(RecordedPool { instances, width, ep: if width.is_multiple_of(ep) { ep } else { 1 }, dp_attention })
    };
    Ok((pool(prefill, x)?, pool(decode, y)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(disagg: &str) -> MeasuredPoint {
        MeasuredPoint { disagg: disagg.into(), ..MeasuredPoint::default() }
    }

    #[test]
    fn a_full_layout_is_read() {
        let (p, d) =
            recorded(&row("1P4D; prefill 4 GPU (tp4 ep4 dpa=true), decode 32 GPU (tp8 ep8 dpa=false)")).unwrap();
        assert_eq!(p, RecordedPool { instances: 1, width: 4, ep: 4, dp_attention: true });
        assert_eq!(d, RecordedPool { instances: 4, width: 8, ep: 8, dp_attention: false });
    }

    #[test]
    fn a_width_of_one_over_several_gpus_is_data_parallel_attention() {
        let (p, d) =
            recorded(&row("6P1D; prefill 24 GPU (tp1 ep1 dpa=false), decode 48 GPU (tp1 ep1 dpa=true)")).unwrap();
        assert_eq!((p.width, p.ep, p.dp_attention), (4, 4, true));
        assert_eq!((d.width, d.ep, d.dp_attention), (48, 48, true));
    }

    #[test]
    fn the_short_form_takes_the_rows_columns_and_no_layout_is_an_error() {
        let (p, d) = recorded(&row("2P1D; prefill 8 GPU, decode 4 GPU")).unwrap();
        assert_eq!((p.width, p.dp_attention, d.width), (4, false, 4));
        assert!(recorded(&row("disaggregated (split not in scrape)")).is_err());
        assert!(recorded(&row("0P0D; prefill 0 GPU, decode 0 GPU")).is_err());
    }
}
