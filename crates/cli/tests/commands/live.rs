//! The live page's server; the page itself is in `make live`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::*;

/// `ecrl live`, which ends with the test.
struct Server(Child, String);

impl Server {
    fn on(folder: &str, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ecrl"));
        command.args(["live", folder, "--quiet", "--port", "0"]).args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self(child, line.trim().to_owned())
    }

    fn port(&self) -> &str {
        self.1.split('/').nth(2).unwrap().rsplit(':').next().unwrap()
    }

    /// The beginning of what is answered.
    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", self.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let (mut all, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(n @ 1..) = stream.read(&mut piece) {
            all.extend(&piece[..n]);
            if request.contains("/events") && all.windows(5).any(|part| part == b"data:") {
                break;
            }
        }
        String::from_utf8_lossy(&all).into_owned()
    }

    fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn runs_are_told_and_nothing_else_is_given() {
    let folder = Folder::new("live");
    let runs = folder.path("runs");
    train(&["hopper", "--algo", "erl", "--quiet", "--out", &format!("{runs}/one")]);
    std::fs::write(folder.path("secret"), "secret").unwrap();
    let server = Server::on(&runs, &[]);
    let page = server.get("/");
    assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains("frame-ancestors 'self'"));
    assert!(
        page.contains("new EventSource") && !page.contains("https://"),
        "nothing from elsewhere"
    );
    let mut told = String::new();
    for _ in 0..50 {
        told = server.get("/events");
        if told.contains("\"run\":\"one\"") {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(told.contains("event: all") && told.contains("\"state\":\"finished\""), "{told}");
    let number = 1;
    let series = server.get(&format!("/series?run={number}&names=env_steps,critic_loss"));
    assert!(series.contains("\"critic_loss\":{\"t\":["), "{series}");
    assert!(server.get(&format!("/population?run={number}")).contains("\"individuals\":["));
    assert!(server.get(&format!("/about?run={number}")).contains("algorithm = \\\"erl\\\""));
    assert!(server.get(&format!("/compare?run={number}&with={number}")).contains("\"rows\":[]"));
    let robot = server.get(&format!("/robot?run={number}"));
    assert!(robot.starts_with("HTTP/1.1 200 OK") && robot.contains("the median of 3 by return"));
    for path in
        ["/../secret", "/..%2fsecret", "/secret", "/series?run=2", "/robot?run=/etc", "/one"]
    {
        let answer = server.get(path);
        assert!(answer.starts_with("HTTP/1.1 404") && !answer.ends_with("secret"), "{answer}");
    }
    let other = server.ask("GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert!(other.starts_with("HTTP/1.1 403"), "{other}");
    let written =
        server.ask("PUT /about?run=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(written.starts_with("HTTP/1.1 405"), "{written}");
    // Where others reach it, nobody sees anything without the token.
    let server = Server::on(&runs, &["--listen", "0.0.0.0"]);
    assert!(server.get("/").starts_with("HTTP/1.1 403"));
    let token = server.1.split_once("token=").unwrap().1.to_owned();
    assert_eq!(token.len(), 32);
    assert!(server.get(&format!("/?token={token}")).starts_with("HTTP/1.1 200"));
}

#[test]
fn what_cannot_be_shown_gets_one_line() {
    let folder = Folder::new("live-bad");
    let file = folder.path("file");
    std::fs::write(&file, "x").unwrap();
    fails(&["live", &file], 2, &format!("{file}: expected a folder that holds runs"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let expected =
        format!("cannot listen on 127.0.0.1:{port}: Address already in use (os error 98)");
    fails(&["live", &folder.path(""), "--quiet", "--port", &port], 2, &expected);
}
