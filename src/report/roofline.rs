//! The roofline page of a measured sweep: two plots, three answers, the table behind them.

use super::plots::curves::{Curve, Curves};
use super::plots::{Chart, png, svg};
use super::text::html as esc;
use crate::anchor::roofline::{NEAR, Placed, Roofline};
use crate::{Error, Result};
use std::path::Path;

/// Writes `roofline.html`, the plots as SVG and PNG, and `roofline.json` into a folder, made where it is missing.
///
/// # Errors
/// A folder that cannot be written.
pub fn write(folder: &Path, roofline: &Roofline) -> Result<()> {
    let failed = |e: String| {
        Error::input(folder.display().to_string(), format!("cannot be written: {e}"), "Give --out another folder")
    };
    std::fs::create_dir_all(folder).map_err(|e| failed(e.to_string()))?;
    let put = |name: &str, text: String| std::fs::write(folder.join(name), text).map_err(|e| failed(e.to_string()));
    let charts = [("roofline", roof_chart(roofline)), ("bandwidth", bandwidth_chart(roofline))];
    let mut body = String::new();
    for (name, chart) in &charts {
        let drawn = svg(chart)?;
        body +=
            &format!("<section><div class=\"plot\">{}</div></section>\n", &drawn[drawn.find("<svg").unwrap_or(0)..]);
        put(&format!("{name}.svg"), drawn)?;
        png(chart as &dyn Chart, &folder.join(format!("{name}.png")))?;
    }
    put("roofline.html", page(roofline, &body))?;
    put("roofline.json", serde_json::to_string_pretty(roofline).map_err(|e| failed(e.to_string()))? + "\n")
}

/// The shardings in the order of the points, each with its points.
fn by_sharding(roofline: &Roofline) -> Vec<(&str, Vec<&Placed>)> {
    let mut groups: Vec<(&str, Vec<&Placed>)> = Vec::new();
    for point in &roofline.points {
        match groups.last_mut() {
            Some((name, points)) if *name == point.sharding => points.push(point),
            _ => groups.push((&point.sharding, vec![point])),
        }
    }
    groups
}

fn roof_chart(r: &Roofline) -> Curves {
    let mut curves = Vec::new();
    for (sharding, points) in by_sharding(r) {
        let decode =
            points.iter().map(|p| (p.decode_intensity, p.decode_tflops, format!("c{}", p.concurrency))).collect();
        curves.push(Curve { name: format!("decode {sharding}"), points: decode, joined: true });
        let prefill: Vec<_> = points
            .iter()
            .filter_map(|p| p.prefill.map(|f| (f.intensity, f.tflops, format!("c{}", p.concurrency))))
            .collect();
        if !prefill.is_empty() {
            curves.push(Curve { name: format!("prefill {sharding}"), points: prefill, joined: false });
        }
    }
    let xs = || curves.iter().flat_map(|c| &c.points).map(|p| p.0).chain([r.ridge]);
    let (low, high) = xs().fold((f64::MAX, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    let memory = vec![(low, low * r.hbm_tb_s), (r.ridge, r.peak_tflops)];
    let compute = vec![(r.ridge, r.peak_tflops), (high.max(2.0 * r.ridge), r.peak_tflops)];
    Curves {
        title: format!("Measured rates under the roof of {}", r.gpu),
        subtitle: "Work is counted, time is measured; per GPU. A label is the number of clients.".to_string(),
        x_label: "FLOP per byte, log scale".to_string(),
        y_label: "TFLOP/s per GPU, log scale".to_string(),
        curves,
        roofs: vec![
            (format!("{} TB/s", r.hbm_tb_s), memory),
            (format!("{} TFLOP/s", super::text::grouped(r.peak_tflops)), compute),
        ],
        logarithmic: true,
    }
}

fn bandwidth_chart(r: &Roofline) -> Curves {
    let curves = by_sharding(r)
        .into_iter()
        .map(|(sharding, points)| Curve {
            name: sharding.to_string(),
            points: points.iter().map(|p| (f64::from(p.concurrency), 100.0 * p.hbm_share, String::new())).collect(),
            joined: true,
        })
        .collect();
    let loads = || r.points.iter().map(|p| f64::from(p.concurrency));
    let (low, high) = loads().fold((f64::MAX, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    Curves {
        title: "How near decode comes to the memory bandwidth".to_string(),
        subtitle: "Bytes of the decode steps over TPOT; prefill between steps counts against it.".to_string(),
        x_label: "clients".to_string(),
        y_label: "% of the HBM bandwidth".to_string(),
        curves,
        roofs: vec![(format!("{:.0} %", 100.0 * NEAR), vec![(low, 100.0 * NEAR), (high, 100.0 * NEAR)])],
        logarithmic: false,
    }
}

fn page(r: &Roofline, plots: &str) -> String {
    let items = |texts: &[String]| texts.iter().map(|t| format!("<li>{}</li>", esc(t))).collect::<String>();
    let rows: String = r
        .points
        .iter()
        .map(|p| {
            let prefill = p.prefill.map_or("-".to_string(), |f| format!("{:.2}", f.tflops));
            format!(
                "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{:.1}</td><td class=\"n\">{:.3}</td>\
                 <td class=\"n\">{:.1}</td><td class=\"n\">{:.3}</td><td class=\"n\">{:.1} %</td><td class=\"n\">{prefill}</td>\
                 </tr>",
                esc(&p.sharding),
                p.concurrency,
                p.tok_s_per_gpu,
                p.decode_tflops,
                p.decode_intensity,
                p.hbm_tb_s,
                100.0 * p.hbm_share,
            )
        })
        .collect();
    let heads =
        ["sharding", "clients", "tok/s/GPU", "decode TFLOP/s", "FLOP/byte", "HBM TB/s", "of HBM", "prefill TFLOP/s"];
    let heads: String = heads.iter().map(|h| format!("<th>{h}</th>")).collect();
    let left_out = if r.left_out.is_empty() {
        String::new()
    } else {
        format!("<section><h2>Not placed</h2><ul>{}</ul></section>", items(&r.left_out))
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\
         <title>Roofline of {gpu}</title>\n<style>\n{style}</style></head>\n<body><main>\n<header><h1>Roofline of {gpu}</h1>\
         </header>\n<section><ul>{answers}</ul></section>\n{plots}<section><h2>Every run</h2><div class=\"scroll\"><table>\
         <thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></section>\n{left_out}\
         <p class=\"muted small\">FLOP of a token: 2 x active parameters. Bytes of a step: weights of the experts touched and \
         KV read, as the projector counts them. Peaks: the target's data-sheet figures. Rates and times: measured.</p>\n\
         </main></body></html>\n",
        gpu = esc(&r.gpu),
        style = super::html::STYLE,
        answers = items(&r.answers),
    )
}
