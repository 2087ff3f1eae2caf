//! One HTTP exchange a call: adds the key, keeps status and `Retry-After`, and repeats nothing by itself, so that every
//! request is counted and every wait is the planner's own.

use async_openai::error::OpenAIError;
use async_openai::middleware::HttpRequestFactory;
use reqwest::Response;
use reqwest::header::{AUTHORIZATION, DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

/// What the last response's head said.
#[derive(Debug, Clone, Default)]
pub struct Head {
    /// Status, once there is one.
    pub status: Option<u16>,
    /// Wait the server asks for.
    pub retry_after: Option<Duration>,
}

/// Sends requests.
#[derive(Clone)]
pub struct Sender {
    /// The client.
    pub http: reqwest::Client,
    /// `Bearer …`, where there is a key.
    pub key: Option<HeaderValue>,
    /// The last response's head.
    pub head: Arc<Mutex<Head>>,
}

impl tower::Service<HttpRequestFactory> for Sender {
    type Response = Response;
    type Error = OpenAIError;
    type Future = Pin<Box<dyn Future<Output = Result<Response, OpenAIError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, factory: HttpRequestFactory) -> Self::Future {
        let sender = self.clone();
        Box::pin(async move {
            let mut request = factory.build().await?;
            match sender.key {
                Some(key) => drop(request.headers_mut().insert(AUTHORIZATION, key)),
                None => drop(request.headers_mut().remove(AUTHORIZATION)),
            }
            let response = sender.http.execute(request).await?;
            if let Ok(mut head) = sender.head.lock() {
                *head = Head { status: Some(response.status().as_u16()), retry_after: retry_after(response.headers()) };
            }
            Ok(response)
        })
    }
}

/// What the answer asks to wait.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|v: &HeaderValue| v.to_str().ok());
    let seconds = crate::retry_after::seconds(text(RETRY_AFTER)?, text(DATE))?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(value: &str) -> Option<u64> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, value.parse().unwrap());
        headers.insert(DATE, "Wed, 31 Dec 2025 23:59:30 GMT".parse().unwrap());
        retry_after(&headers).map(|d| d.as_secs())
    }

    #[test]
    fn retry_after_is_read_in_both_spellings() {
        assert_eq!(wait("7"), Some(7));
        assert_eq!(wait("Thu, 01 Jan 2026 00:00:15 GMT"), Some(45));
        assert_eq!(wait("Wed, 31 Dec 2025 23:00:00 GMT"), Some(0), "in the past");
        assert_eq!(wait("soon"), None);
        assert_eq!(wait("1e300"), None);
    }
}
