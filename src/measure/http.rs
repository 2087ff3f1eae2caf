//! When did each byte reach this process? HTTP/1.1 over TCP or TLS, with the time of every socket read.
//!
//! hyper parses; the socket underneath is metered. One task drives the connection and reads the body, and the meter
//! lets one socket read through at a time, only after everything an earlier read brought has been handed on. So each
//! body byte carries the time of the read that brought it, taken before any parsing.

use super::endpoint::Endpoint;
use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, pki_types::ServerName};

/// Why an exchange did not complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// No connection: refused, unreachable, name unknown.
    Connect(String),
    /// The TLS handshake failed.
    Tls(String),
    /// The connection broke.
    Broken(String),
    /// Nothing arrived for the idle limit, or the whole exchange passed its limit.
    Timeout(String),
    /// The server did not speak HTTP.
    Protocol(String),
}

/// What every connection of a run shares.
#[derive(Clone)]
pub struct Connector {
    /// Instants are reported in nanoseconds since this one.
    pub epoch: Instant,
    tls: Option<TlsConnector>,
    connect_limit: Duration,
}

impl Connector {
    /// TLS roots come from the system's store (`SSL_CERT_FILE` overrides it). `epoch` is the zero of all stamps.
    pub fn new(endpoint: &Endpoint, epoch: Instant, connect_limit: Duration) -> crate::Result<Self> {
        let tls = if endpoint.tls { Some(tls_connector()?) } else { None };
        Ok(Self { epoch, tls, connect_limit })
    }

    /// Nanoseconds since the epoch.
    pub fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Opens a connection.
    pub async fn connect(&self, to: &Endpoint) -> Result<Connection, Fault> {
        let began = Instant::now();
        let opened = tokio::time::timeout(self.connect_limit, self.open(to)).await;
        let mut connection = opened.map_err(|_| {
            Fault::Connect(format!("no connection to {} within {:?}", to.authority(), self.connect_limit))
        })??;
        connection.connect_ms = began.elapsed().as_secs_f64() * 1e3;
        Ok(connection)
    }

    async fn open(&self, to: &Endpoint) -> Result<Connection, Fault> {
        let tcp = TcpStream::connect((to.host.as_str(), to.port))
            .await
            .map_err(|e| Fault::Connect(format!("{}: {e}", to.authority())))?;
        tcp.set_nodelay(true).map_err(|e| Fault::Connect(e.to_string()))?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(tcp),
            Some(tls) => {
                let name = ServerName::try_from(to.host.clone()).map_err(|e| Fault::Tls(e.to_string()))?;
                Box::new(tls.connect(name, tcp).await.map_err(|e| Fault::Tls(format!("{}: {e}", to.authority())))?)
            }
        };
        let gate = Arc::new(Gate { open: AtomicBool::new(true), read_ns: AtomicU64::new(0), read: false.into() });
        let metered = Metered { stream, gate: gate.clone(), epoch: self.epoch };
        let (send, drive) = http1::handshake(metered).await.map_err(|e| Fault::Protocol(describe(&e)))?;
        Ok(Connection { drive, send, gate, epoch: self.epoch, connect_ms: 0.0, used: 0, closed: false })
    }
}

fn tls_connector() -> crate::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(crate::Error::input(
            "TLS",
            "no root certificate on this machine",
            "Install ca-certificates, or name a bundle in SSL_CERT_FILE",
        ));
    }
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

struct Gate {
    open: AtomicBool,
    read_ns: AtomicU64,
    read: AtomicBool,
}

struct Metered {
    stream: Box<dyn Stream>,
    gate: Arc<Gate>,
    epoch: Instant,
}

impl hyper::rt::Read for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.gate.open.load(Relaxed) {
            return Poll::Pending; // the driver polls again at once, with the gate open
        }
        let mut room = [0u8; 16 << 10];
        let n = room.len().min(buf.remaining());
        let mut filled = tokio::io::ReadBuf::new(&mut room[..n]);
        let outcome = Pin::new(&mut self.stream).poll_read(cx, &mut filled);
        if outcome.is_ready() {
            self.gate.read_ns.store(self.epoch.elapsed().as_nanos() as u64, Relaxed);
            self.gate.read.store(true, Relaxed);
            self.gate.open.store(false, Relaxed);
            buf.put_slice(filled.filled());
        }
        outcome
    }
}

impl hyper::rt::Write for Metered {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// One kept-alive connection, driven by the task that uses it.
pub struct Connection {
    drive: http1::Connection<Metered, Full<Bytes>>,
    send: http1::SendRequest<Full<Bytes>>,
    gate: Arc<Gate>,
    epoch: Instant,
    /// Milliseconds from the first SYN to the end of the TLS handshake.
    pub connect_ms: f64,
    /// Exchanges begun on it.
    pub used: usize,
    closed: bool,
}

/// Limits of one exchange.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Longest silence.
    pub idle: Duration,
    /// Longest exchange.
    pub total: Duration,
}

/// Head of a response.
#[derive(Debug, Clone, Default)]
pub struct Head {
    /// HTTP status.
    pub status: u16,
    /// Content-Type, in lower case.
    pub content_type: String,
    /// Seconds that Retry-After asks to wait, a date against the answer's own.
    pub retry_after_s: Option<f64>,
}

/// Receives an exchange as it happens.
pub trait Receiver {
    /// The head arrived with the read of this time.
    fn head(&mut self, at_ns: u64, head: Head);
    /// Body bytes arrived with the read of this time. True ends the exchange within a second of silence.
    fn bytes(&mut self, at_ns: u64, bytes: &[u8]) -> bool;
}

impl Connection {
    /// True when a request can be sent; a connection that the server closed meanwhile cannot.
    pub async fn ready(&mut self) -> bool {
        std::future::poll_fn(|cx| {
            self.poll_drive(cx, true);
            if self.closed {
                return Poll::Ready(false);
            }
            self.send.poll_ready(cx).map(|r| r.is_ok())
        })
        .await
    }

    /// Sends one request and hands every part of the answer to `receiver`.
    /// An error of [`Fault::Broken`] before the head means that nothing was received.
    pub async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        limits: Limits,
        receiver: &mut impl Receiver,
    ) -> Result<(), Fault> {
        let began = Instant::now();
        self.used += 1;
        let mut answer = pin!(self.send.send_request(request));
        let mut body: Option<Incoming> = None;
        let mut timer = pin!(tokio::time::sleep(limits.idle.min(limits.total)));
        let (mut idle, mut last) = (limits.idle, began);
        std::future::poll_fn(|cx| {
            loop {
                let mut progressed = false;
                let at_ns = self.gate.read_ns.load(Relaxed);
                match &mut body {
                    None => {
                        if let Poll::Ready(response) = answer.as_mut().poll(cx) {
                            let response = response.map_err(|e| fault(&e))?;
                            receiver.head(at_ns, head(&response));
                            body = Some(response.into_body());
                            progressed = true;
                        }
                    }
                    Some(incoming) => match Pin::new(incoming).poll_frame(cx) {
                        Poll::Ready(None) => return Poll::Ready(Ok(())),
                        Poll::Ready(Some(Err(e))) => return Poll::Ready(Err(fault(&e))),
                        Poll::Ready(Some(Ok(frame))) => {
                            progressed = true;
                            if let Ok(bytes) = Frame::into_data(frame)
                                && receiver.bytes(at_ns, &bytes)
                            {
                                idle = idle.min(Duration::from_secs(1));
                                timer.as_mut().reset(tokio::time::Instant::now() + idle);
                            }
                        }
                        Poll::Pending => {}
                    },
                }
                let was_closed = self.closed;
                // A read waits until all that an earlier one brought has been handed on.
                let read = poll_drive(&mut self.drive, &self.gate, &mut self.closed, cx, !progressed);
                if progressed || read || self.closed != was_closed {
                    continue;
                }
                if timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                let read_ns = Duration::from_nanos(self.gate.read_ns.load(Relaxed));
                last = last.max(self.epoch + read_ns);
                let now = Instant::now();
                if now >= began + limits.total {
                    return Poll::Ready(Err(Fault::Timeout(format!("not complete after {:?}", limits.total))));
                }
                if now >= last + idle {
                    return Poll::Ready(Err(Fault::Timeout(format!("nothing arrived for {idle:?}"))));
                }
                timer.as_mut().reset((last + idle).min(began + limits.total).into());
            }
        })
        .await
    }

    fn poll_drive(&mut self, cx: &mut Context<'_>, open: bool) -> bool {
        poll_drive(&mut self.drive, &self.gate, &mut self.closed, cx, open)
    }
}

/// Polls the connection once; true when a socket read returned.
fn poll_drive(
    drive: &mut http1::Connection<Metered, Full<Bytes>>,
    gate: &Gate,
    closed: &mut bool,
    cx: &mut Context<'_>,
    open: bool,
) -> bool {
    if *closed {
        return false;
    }
    gate.open.store(open, Relaxed);
    gate.read.store(false, Relaxed);
    if Pin::new(drive).poll(cx).is_ready() {
        *closed = true; // an error reaches the response or the body as well
    }
    gate.read.load(Relaxed)
}

fn head<B>(response: &Response<B>) -> Head {
    let text = |name| response.headers().get(name).and_then(|v: &hyper::header::HeaderValue| v.to_str().ok());
    Head {
        status: response.status().as_u16(),
        content_type: text("content-type").unwrap_or_default().to_ascii_lowercase(),
        retry_after_s: text("retry-after").and_then(|v| crate::retry_after::seconds(v, text("date"))),
    }
}

fn fault(error: &hyper::Error) -> Fault {
    if error.is_parse() { Fault::Protocol(describe(error)) } else { Fault::Broken(describe(error)) }
}

/// hyper's text with its cause, which alone says "connection reset by peer".
fn describe(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// Fetches a small document (`/metrics`, `/v1/models`): its status and body, at most 16 MiB.
pub async fn fetch(
    connector: &Connector,
    from: &Endpoint,
    authorization: Option<&str>,
    limit: Duration,
) -> Result<(u16, Vec<u8>), Fault> {
    #[derive(Default)]
    struct Document(u16, Vec<u8>);
    impl Receiver for Document {
        fn head(&mut self, _: u64, head: Head) {
            self.0 = head.status;
        }
        fn bytes(&mut self, _: u64, bytes: &[u8]) -> bool {
            let room = (16usize << 20).saturating_sub(self.1.len());
            self.1.extend_from_slice(&bytes[..bytes.len().min(room)]);
            false
        }
    }
    let mut builder = Request::get(&from.path).header("host", from.authority()).header("connection", "close");
    if let Some(value) = authorization {
        builder = builder.header("authorization", value);
    }
    let request = builder.body(Full::default()).map_err(|e| Fault::Protocol(e.to_string()))?;
    let mut connection = connector.connect(from).await?;
    if !connection.ready().await {
        return Err(Fault::Broken("the server closed the connection at once".into()));
    }
    let mut document = Document::default();
    connection.exchange(request, Limits { idle: limit, total: limit }, &mut document).await?;
    Ok((document.0, document.1))
}
