//! Would every further request meet the same refusal? Then the run stops before the load, and says what to do.

use super::endpoint::ApiKey;
use super::http::fetch;
use super::options::Options;
use super::point::Client;
use super::record::RequestRecord;
use crate::{Error, Result};
use serde_json::Value;
use std::time::Duration;

/// An error for what every further request would meet too; a passing fault is none.
pub async fn refuse_if_hopeless(client: &Client, options: &Options, record: &RequestRecord) -> Result<()> {
    let Some(failure) = &record.failure else { return Ok(()) };
    let repair = match (failure.kind.as_str(), record.http_status) {
        ("connect", _) => "Is the server up, and is this its address?".to_string(),
        // What a peer that speaks plain HTTP sends back is no TLS record.
        ("tls", _) if failure.message.contains("InvalidContentType") => {
            "This port does not speak TLS; write http:// instead of https://".into()
        }
        ("tls", _) => "Check the certificate; SSL_CERT_FILE names a bundle of trusted roots".into(),
        ("protocol", _) => "This port does not speak HTTP/1.1 (https instead of http?)".into(),
        ("not_a_stream", _) => "The endpoint ignores \"stream\": true; latencies of tokens can't be measured".into(),
        (_, Some(401 | 403)) => match &options.key {
            None => "Name the key's environment variable with --api-key-env".into(),
            Some((variable, _)) => format!("Check the key in {variable}"),
        },
        (_, Some(404)) => models(client, options).await,
        (_, Some(400 | 405 | 413 | 422)) => "The endpoint refuses the request itself; see --dry-run".into(),
        _ => return Ok(()),
    };
    Err(Error::input(format!("POST {}", options.endpoint), failure.message.clone(), repair))
}

async fn models(client: &Client, options: &Options) -> String {
    let from = options.endpoint.sibling("/v1/models");
    let key = client.key.as_ref().map(ApiKey::header);
    let answer = fetch(&client.connector, &from, key.as_deref(), Duration::from_secs(5)).await;
    let ids: Vec<String> = match answer {
        Ok((200, body)) => serde_json::from_slice::<Value>(&body)
            .ok()
            .and_then(|v| v.get("data").and_then(Value::as_array).cloned())
            .unwrap_or_default()
            .iter()
            .filter_map(|m| m.get("id").and_then(Value::as_str).map(str::to_string))
            .collect(),
        _ => vec![],
    };
    let shown: Vec<&str> = ids.iter().map(String::as_str).take(20).collect();
    match shown.as_slice() {
        [] => format!("Check --url and --endpoint; {from} lists no model either"),
        some if some.contains(&options.model.as_str()) => "The model is served; check --endpoint".into(),
        some => format!("Models served there: {}", some.join(", ")),
    }
}
