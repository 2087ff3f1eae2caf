use super::*;
use proptest::prelude::*;

const TOKENS: usize = 6;

fn stream() -> Vec<u8> {
    let mut text = String::new();
    for i in 0..TOKENS {
        text += &format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" t{i}\"}},\"finish_reason\":null}}]}}\n\n"
        );
    }
    text += "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n";
    text += "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":6,\"total_tokens\":15}}\n\n";
    text += "data: [DONE]\n\n";
    text.into_bytes()
}

/// The record of these bytes, a read every `step` bytes, ended by the server.
fn record(bytes: &[u8], step: usize) -> RequestRecord {
    let mut assembler = Assembler::default();
    let content_type = "text/event-stream".to_string();
    assembler.head(1, Head { status: 200, content_type, retry_after_s: None });
    for (i, read) in bytes.chunks(step.max(1)).enumerate() {
        assembler.bytes(10 + i as u64, read);
    }
    let asked =
        Asked { point: "p".into(), index: 0, request_id: "r".into(), prompt_tokens: Some(9), osl: TOKENS as u32 };
    let end_ns = 10 + bytes.len() as u64;
    let ended = Ended {
        scheduled_ns: 0,
        start_ns: 0,
        end_ns,
        connect_ms: None,
        turned_away: None,
        fault: None,
        cancelled: false,
    };
    assembler.finish(&asked, &ended, CountBy::Server, None, 0)
}

#[test]
fn the_whole_stream_is_ok() {
    let r = record(&stream(), 7);
    assert_eq!((r.population, r.osl, r.chunks), (Population::Ok, Some(6), TOKENS));
}

proptest! {
    /// A stream that was cut before it said that it is complete is never called whole, wherever the cut lies.
    #[test]
    fn a_cut_stream_is_never_whole(cut in 0usize..600, step in 1usize..80) {
        let whole = stream();
        let said = whole.windows(8).position(|w| w == b"\"length\"").unwrap();
        let r = record(&whole[..cut.min(said)], step);
        prop_assert_ne!(r.population, Population::Ok);
        prop_assert!(r.failure.is_some());
    }

    /// Damage anywhere: no panic, stamps that do not run backwards, no figure that is not a number, an explanation
    /// beside everything that is not ok.
    #[test]
    fn damage_is_survived(hits in prop::collection::vec((0usize..900, any::<u8>()), 0..12), step in 1usize..80) {
        let mut bytes = stream();
        for (at, byte) in hits {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let r = record(&bytes, step);
        prop_assert!(r.chunk_ms.windows(2).all(|w| w[0] <= w[1]));
        prop_assert_eq!(r.failure.is_none(), r.population == Population::Ok);
        for figure in [r.ttft_ms, r.tpot_ms, r.latency_ms, r.tok_s_per_user, r.e2e_tok_s] {
            prop_assert!(figure.is_none_or(f64::is_finite));
        }
    }
}
