//! The loop on a real engine: `examples/real_engine/loop.sh` against a real small model on loopback.
//!
//! Ignored in a plain run, because it installs an engine: `cargo test --test real_engine -- --ignored --nocapture`. The
//! script that installs and starts one lies in `$INFERASIM_SERVERS`, else in `../shared/tools/servers`; where it is
//! absent or cannot be installed the test says SKIPPED.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Server(Child);

impl Drop for Server {
    /// Ends the script and the engine it became, by their own group.
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", "--", &format!("-{}", self.0.id())]).status();
        let _ = self.0.wait();
    }
}

fn script() -> Option<PathBuf> {
    let folder = match std::env::var_os("INFERASIM_SERVERS") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/tools/servers"),
    };
    let script = folder.join("small_llm.sh");
    script.exists().then_some(script)
}

fn get(port: u16, path: &str) -> Option<String> {
    use std::io::Write;
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.starts_with("HTTP/1.1 200").then_some(text)
}

/// The engine, once it answers; none, said aloud, where it cannot be had within four minutes.
fn start(port: u16) -> Option<Server> {
    let Some(script) = script() else {
        println!("SKIPPED: no small_llm.sh (set INFERASIM_SERVERS)");
        return None;
    };
    let mut command = Command::new("bash");
    command.arg(script).args([port.to_string(), "2".into()]).stdin(Stdio::null()).process_group(0);
    let mut server = Server(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(240) {
        if get(port, "/health").is_some() {
            return Some(server);
        }
        if let Ok(Some(status)) = server.0.try_wait() {
            println!("SKIPPED: the engine cannot be installed or started here ({status})");
            return None;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    println!("SKIPPED: the engine was not up after four minutes");
    None
}

#[test]
#[ignore = "installs and starts a real engine"]
fn anchors_carry_a_projection_to_loads_that_were_not_measured() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let Some(_server) = start(port) else { return };
    let folder = tempfile::tempdir().unwrap();
    let run = Command::new("bash")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/real_engine/loop.sh"))
        .args([&format!("http://127.0.0.1:{port}"), "small", &folder.path().display().to_string()])
        .env("INFERASIM", env!("CARGO_BIN_EXE_inferasim"))
        .output()
        .unwrap();
    let (text, words) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    println!("{text}");
    assert!(run.status.success(), "{words}");
    let rows: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(rows.len(), 2, "two points that were not measured: {text}");
    for row in rows {
        // clients, lengths, TPOT projected, measured, error %, TTFT projected, measured, error %.
        let figures: Vec<f64> = row.split_whitespace().filter_map(|w| w.parse().ok()).collect();
        let tpot: Vec<f64> = figures[1..4].to_vec();
        // A machine that others use varies by itself; a wrong loop is off by the target's whole error.
        assert!(
            (0.4..2.5).contains(&(tpot[0] / tpot[1])),
            "TPOT projected {} and measured {}: {row}",
            tpot[0],
            tpot[1]
        );
    }
}
