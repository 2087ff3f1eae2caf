//! Verdicts on hand-made figures.

use super::*;
use proptest::prelude::*;

fn metrics(ttft_ms: f64, tpot_ms: f64, tok_s_per_gpu: f64) -> ServingMetrics {
    ServingMetrics {
        ttft_ms,
        ttft_p50_ms: ttft_ms,
        tpot_ms,
        e2e_ms: ttft_ms + tpot_ms * 1023.0,
        output_tok_s: tok_s_per_gpu * 4.0,
        total_tok_s: tok_s_per_gpu * 8.0,
        tok_s_per_gpu,
        tok_s_per_user: 1000.0 / tpot_ms,
        running: 64.0,
        usd_per_m_output: None,
        usd_per_m_total: None,
    }
}

fn objective(slos: &str) -> Objective {
    let (mut objective, _) = Objective::load("default").unwrap();
    objective.override_slos(Slo::parse_list(slos).unwrap());
    objective
}

#[test]
fn every_built_in_objective_loads_under_its_file_name() {
    for name in catalog::names(Kind::Objective) {
        assert_eq!(Objective::load(name).unwrap().0.name, name);
    }
    assert_eq!(objective("ttft_ms=500").sentence(), "maximise tok_s_per_gpu under ttft_ms <= 500");
}

#[test]
fn a_limit_is_kept_at_its_value() {
    assert_eq!(objective("tpot_ms=20").judge(&metrics(100.0, 20.0, 7.0)), Ok(7.0));
    assert_eq!(objective("tok_s_per_user=50").judge(&metrics(100.0, 20.0, 7.0)), Ok(7.0));
}

#[test]
fn the_worst_miss_is_named_with_its_factor() {
    let wanted = objective("ttft_ms=100,tpot_ms=20,tok_s_per_user=50");
    let miss = wanted.judge(&metrics(110.0, 24.1, 7.0)).unwrap_err();
    assert_eq!(miss.slo, 1, "1.1x on ttft_ms, 1.205x on tpot_ms, the same on its inverse: the first");
    assert_eq!(wanted.slos[miss.slo].describe(&miss), "tpot_ms 24.1 over the budget of 20 (1.21x)");
    let floor = objective("tok_s_per_gpu=14").judge(&metrics(1.0, 1.0, 7.0)).unwrap_err();
    assert_eq!(floor.overshoot, 2.0);
    assert_eq!(
        objective("tok_s_per_gpu=14").slos[0].describe(&floor),
        "tok_s_per_gpu 7.00 under the floor of 14 (2.00x)"
    );
}

#[test]
fn what_is_not_a_number_keeps_no_limit() {
    assert!(objective("ttft_ms=100").judge(&metrics(f64::NAN, 1.0, 1.0)).is_err());
    assert!(objective("usd_per_m_total=100").judge(&metrics(1.0, 1.0, 1.0)).is_err());
}

#[test]
fn flags_are_refused_with_the_nearest_name() {
    let text = |list: &str| Slo::parse_list(list).unwrap_err().to_string();
    assert!(
        text("tftt_ms=500").starts_with("SLO `tftt_ms`: no such figure. Did you mean `ttft_ms`?"),
        "{}",
        text("tftt_ms=500")
    );
    for bad in ["ttft_ms=-5", "ttft_ms=0", "ttft_ms=nan", "ttft_ms=inf", "ttft_ms=1e30"] {
        assert!(text(bad).contains("is not between 1e-6 and 1000000000"), "{}", text(bad));
    }
    assert!(text("ttft_ms").contains("no `=`"));
    assert!(text("ttft_ms=fast").contains("not a number"));
    assert!(text("ttft_ms=1,").contains("no `=`"));
}

#[test]
fn files_are_refused_with_place_and_repair() {
    let text = |body: &str| {
        let text = format!("name: x\nabout: y\n{body}");
        Objective::from_document(&Document { origin: "o.yaml".into(), text }).unwrap_err().to_string()
    };
    assert!(text("metric: tok_s_gpu\n").contains("Did you mean `tok_s_per_gpu`?"), "{}", text("metric: tok_s_gpu\n"));
    let unknown = text("metric: ttft_ms\nslo:\n  tpotms: 5\n");
    assert!(unknown.starts_with("o.yaml:5:3: ") && unknown.contains("Did you mean `tpot_ms`?"), "{unknown}");
    assert!(text("metric: ttft_ms\nslo:\n  tpot_ms: -5\n").starts_with("o.yaml:5: `slo.tpot_ms` is -5."));
    assert!(text("metric: ttft_ms\nslo:\n  tpot_ms: 5\n  tpot_ms: 6\n").contains("duplicate limit `tpot_ms`"));
    assert!(text("metric: ttft_ms\nslo: 5\n").contains("limits such as"));
}

#[test]
fn costs_need_a_price() {
    let error = objective("usd_per_m_total=1").require_price("mi350x").unwrap_err();
    assert!(error.to_string().contains("states none"));
}

#[test]
fn a_flag_is_blamed_for_what_it_asks() {
    let text = |list: &str| {
        let (mut objective, _) = Objective::load("default").unwrap();
        objective.take_flags(Slo::parse_list(list).unwrap(), "mi350x", false).unwrap_err().to_string()
    };
    let twice = text("ttft_ms=500,ttft_ms=600");
    assert!(twice.starts_with("--slo ttft_ms=600: `ttft_ms` is already limited to 500"), "{twice}");
    let cost = text("usd_per_m_output=1");
    assert!(cost.starts_with("--slo usd_per_m_output=1: ") && cost.contains("states none"), "{cost}");
}

proptest! {
    #[test]
    fn a_mutated_file_is_read_or_refused(at in 0usize..300, cut in 0usize..20, junk in "\\PC{0,12}") {
        let mut document = catalog::built_in(Kind::Objective, "chat").unwrap();
        let chars: Vec<char> = document.text.chars().collect();
        let at = at.min(chars.len());
        let end = (at + cut).min(chars.len());
        document.text = chars[..at].iter().collect::<String>() + &junk + &chars[end..].iter().collect::<String>();
        let _ = Objective::from_document(&document);
        let _ = Slo::parse_list(&junk);
    }
}
