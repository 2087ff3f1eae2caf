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

/// `Retry-After` in seconds or as a date (RFC 9110, 10.2.3), the date against the response's own.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds.max(0.0)).ok();
    }
    let now = http_date(headers.get(DATE)?.to_str().ok()?)?;
    Some(Duration::from_secs(http_date(value)?.saturating_sub(now)))
}

/// Seconds since an arbitrary but fixed day of `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut parts = text.split_whitespace().skip(1);
    let day: u64 = parts.next()?.parse().ok()?;
    let name = parts.next()?;
    let month = MONTHS.iter().position(|m| *m == name)? as u64 + 1;
    let year: u64 = parts.next()?.parse().ok()?;
    let mut clock = parts.next()?.split(':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    // Days of the civil calendar (Fliegel and Van Flandern 1968), counted from 1 March of year 0.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
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
