//! Which endpoint is meant, may it be loaded, and with which key?

use crate::{Error, Result};
use hyper::Uri;
use std::fmt;

/// An OpenAI-compatible endpoint, taken apart once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// True for https.
    pub tls: bool,
    /// Host name or address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Path of the request, from the root.
    pub path: String,
    base: String,
}

impl Endpoint {
    /// From `--url` (http or https, an optional base path) and the API path, whose `/v1` may already end the URL.
    pub fn parse(url: &str, path: &str) -> Result<Self> {
        let wrong = |found: &str, repair: &str| Error::input(format!("--url {}", redact(url)), found, repair);
        let uri: Uri = url.parse().map_err(|e| wrong(&format!("{e}"), "Write it as http://127.0.0.1:8000"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("no http:// or https:// in front", "Write it as http://127.0.0.1:8000")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("no host", "Write it as http://127.0.0.1:8000"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("credentials in the URL", "Name the key's environment variable with --api-key-env"));
        }
        if uri.query().is_some() {
            return Err(wrong("a query in the URL", "Give scheme, host, port and base path only"));
        }
        if !path.starts_with('/') || path.contains(['?', '#', ' ']) {
            return Err(Error::input(format!("--endpoint {path}"), "not a path", "Write it as /v1/chat/completions"));
        }
        let base = uri.path().trim_end_matches('/');
        let base = if path.starts_with("/v1/") { base.strip_suffix("/v1").unwrap_or(base) } else { base };
        Ok(Self {
            tls,
            host: authority.host().trim_matches(['[', ']']).to_string(),
            port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            path: format!("{base}{path}"),
            base: base.to_string(),
        })
    }

    /// The same server, another path (`/metrics`, `/v1/models`).
    pub fn sibling(&self, path: &str) -> Self {
        Self { path: format!("{}{path}", self.base), ..self.clone() }
    }

    /// `host:port` for the Host header; IPv6 in brackets.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match (self.tls, self.port) {
            (true, 443) | (false, 80) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    /// True when only this machine can be reached: `localhost`, 127.0.0.0/8 or ::1.
    pub fn is_loopback(&self) -> bool {
        self.host.eq_ignore_ascii_case("localhost")
            || self.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Loading anything beyond this machine needs the user's explicit word.
    pub fn allow_load(&self, yes: bool) -> Result<()> {
        if yes || self.is_loopback() {
            return Ok(());
        }
        Err(Error::input(
            format!("--url {self}"),
            "not on this machine",
            "Loading a server that others use, or that bills you, needs --yes; --dry-run shows what would be sent",
        ))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", if self.tls { "https" } else { "http" }, self.authority(), self.path)
    }
}

/// An API key read from a named environment variable. It cannot be printed or serialised.
#[derive(Clone)]
pub struct ApiKey(String);

impl ApiKey {
    /// From the variable; unset, empty or unprintable is an error that names the variable only.
    pub fn from_env(variable: &str) -> Result<Self> {
        let wrong = |found: &str| {
            Error::input(
                format!("--api-key-env {variable}"),
                found,
                "Export the key under that name; it is never taken from the command line",
            )
        };
        let key = std::env::var(variable).map_err(|_| wrong("the variable is not set, or is not text"))?;
        let key = key.trim();
        if key.is_empty() || !key.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(wrong("the variable is empty or holds characters that a header cannot carry"));
        }
        Ok(Self(key.to_string()))
    }

    /// The Authorization header.
    pub(super) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Replaces the key in text that a server sent back.
    pub fn redact(&self, text: &str) -> String {
        text.replace(&self.0, "<redacted>")
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(<redacted>)")
    }
}

/// Hides credentials that were typed into a URL before it is shown in an error.
fn redact(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => format!("{}://<redacted>{}", &url[..scheme], &url[at..]),
        _ => url.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_prefix_is_not_doubled() {
        for (url, full) in [
            ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1/chat/completions"),
            ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1/chat/completions"),
            ("https://host/api/v1", "https://host/api/v1/chat/completions"),
        ] {
            assert_eq!(Endpoint::parse(url, "/v1/chat/completions").unwrap().to_string(), full);
        }
        let e = Endpoint::parse("http://[::1]:8000/v1", "/v1/chat/completions").unwrap();
        assert_eq!(e.sibling("/metrics").to_string(), "http://[::1]:8000/metrics");
    }

    #[test]
    fn only_this_machine_is_loaded_without_a_word() {
        let load = |url, yes| Endpoint::parse(url, "/v1/chat/completions").unwrap().allow_load(yes).is_ok();
        assert!(
            load("http://localhost:1", false) && load("http://127.3.0.1:1", false) && load("http://[::1]:1", false)
        );
        assert!(!load("http://10.0.0.1:1", false) && !load("http://localhost.example.com", false));
        assert!(load("https://api.example.com", true));
    }

    #[test]
    fn a_key_typed_into_the_url_is_refused_and_not_repeated() {
        let e = Endpoint::parse("http://user:s3cret@host/", "/v1/chat/completions").unwrap_err();
        assert!(e.found.contains("credentials") && !e.to_string().contains("s3cret"));
        assert!(Endpoint::parse("127.0.0.1:8000", "/v1").is_err());
        assert!(Endpoint::parse("ftp://host", "/v1").is_err());
    }

    #[test]
    fn a_key_is_never_shown() {
        let key = ApiKey("s3cret".into());
        assert_eq!(format!("{key:?}"), "ApiKey(<redacted>)");
        assert_eq!(key.redact("bad key s3cret"), "bad key <redacted>");
    }
}
