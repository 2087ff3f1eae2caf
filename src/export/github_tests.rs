use super::*;
use serde_json::json;

fn job(shortlist: &Value) -> Result<String> {
    let runner = ["self-hosted".to_string(), "mi355x".to_string()];
    workflow(&Job { shortlist, command: "inferasim-tune --target mi355x\n--x", runner: &runner })
}

#[test]
fn the_workflow_is_yaml_whose_matrix_is_the_shortlist() {
    // Quotes, a colon and an expression-like text must come out as they went in.
    let entry =
        json!({"name": "m: 'x' \"y\"", "rank": 1, "launch": "vllm serve m --speculative-config '{\"k\":1}'", "tp": 4});
    let shortlist = json!({"include": [entry]});
    let text = job(&shortlist).unwrap();
    let yaml: Value = serde_yaml::from_str(&text).unwrap();
    assert_eq!(yaml["jobs"]["measure"]["strategy"]["matrix"]["include"], shortlist["include"]);
    assert_eq!(yaml["jobs"]["measure"]["runs-on"], json!(["self-hosted", "mi355x"]));
    let kept: Value = serde_json::from_str(yaml["jobs"]["compare"]["env"]["SHORTLIST"].as_str().unwrap()).unwrap();
    assert_eq!(kept, shortlist);
    assert_eq!(yaml["jobs"]["compare"]["needs"], "measure");
    assert!(text.contains("# Written by: inferasim-tune --target mi355x --x\n"));
}

#[test]
fn no_script_holds_a_value_of_an_entry() {
    let text = job(&json!({"include": [{"name": "n", "rank": 1, "launch": "l"}]})).unwrap();
    let yaml: Value = serde_yaml::from_str(&text).unwrap();
    for job in ["measure", "compare"] {
        for step in yaml["jobs"][job]["steps"].as_array().unwrap() {
            assert!(!step["run"].as_str().unwrap_or("").contains("${{"), "{step}");
        }
    }
}

#[test]
fn nothing_to_measure_is_refused() {
    assert!(job(&json!({"include": []})).unwrap_err().to_string().contains("nothing is feasible"));
    let error = job(&json!({"include": [{"name": "n", "launch": "", "notes": "not known"}]})).unwrap_err();
    assert!(error.to_string().contains("no launch command"));
}
