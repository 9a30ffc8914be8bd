//! A small web server: the page, the runs as they grow, and what the page asks of a run. It reads and never writes.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, broadcast};

use super::series::Series;
use super::watch::{News, Watch};
use super::{Play, answers};
use crate::paint;

/// Connections at the same time; more are closed at once.
const CONNECTIONS: usize = 256;
/// Bytes of a request's head, and of a drawing to be made a PDF.
const HEAD: usize = 16 << 10;
const DRAWING: usize = 8 << 20;
/// How often runs are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often a browser that has nothing to be told is told that.
const BEAT: Duration = Duration::from_secs(15);

/// A server that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Its address is not to be had.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What happened.
        error: io::Error,
    },
    /// There is nothing to run it on.
    #[error("cannot serve: {0}")]
    Start(io::Error),
}

/// What all connections share.
struct Shared {
    watch: Mutex<Watch>,
    series: Mutex<Series>,
    /// Pages with a robot, by run, as of the policy of that time.
    robots: Mutex<HashMap<u64, (String, Arc<str>)>>,
    play: Play,
    news: broadcast::Sender<Arc<str>>,
    /// Who does not name it is sent away; none where only this machine can ask.
    token: Option<String>,
}

/// A server that has its address, and does not answer yet.
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
}

impl Server {
    /// Listens on an address, for runs in some folders. Where others than this machine can reach it, they must name
    /// a token.
    pub fn new(
        address: SocketAddr,
        folders: Vec<PathBuf>,
        token: impl FnOnce() -> String,
        play: Play,
    ) -> Result<Self, ServerError> {
        let failed = |error| ServerError::Listen { address, error };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let token = (!address.ip().is_loopback()).then(token);
        let shared = Shared {
            watch: Mutex::new(Watch::new(folders)),
            series: Mutex::default(),
            robots: Mutex::default(),
            play,
            news: broadcast::channel(64).0,
            token,
        };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// Where a browser finds it.
    pub fn address(&self) -> String {
        let address = self.listener.local_addr().map(|address| match address.ip() {
            ip if ip.is_unspecified() => format!("{}:{}", hostname(), address.port()),
            _ => address.to_string(),
        });
        let address = address.unwrap_or_default();
        match &self.shared.token {
            Some(token) => format!("http://{address}/?token={token}"),
            None => format!("http://{address}/"),
        }
    }

    /// Answers until it is asked to stop.
    pub fn serve(self, stop: impl Fn() -> bool) -> Result<(), ServerError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(ServerError::Start)?.block_on(self.accept(stop))
    }

    async fn accept(self, stop: impl Fn() -> bool) -> Result<(), ServerError> {
        let listener =
            tokio::net::TcpListener::from_std(self.listener).map_err(ServerError::Start)?;
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        tokio::spawn(look(Arc::clone(&self.shared)));
        let mut tick = tokio::time::interval(Duration::from_millis(200));
        loop {
            let stream = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = tick.tick() => match stop() {
                    true => return Ok(()),
                    false => continue,
                },
            };
            let Ok((stream, _)) = stream else {
                // No more files, say: those that are open may end.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(place) = Arc::clone(&room).try_acquire_owned() else { continue };
            let shared = Arc::clone(&self.shared);
            tokio::spawn(async move {
                let answer = service_fn(move |request| {
                    let shared = Arc::clone(&shared);
                    async move { Ok::<_, Infallible>(answer(&shared, request).await) }
                });
                let served = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(Duration::from_secs(20))
                    .max_buf_size(HEAD)
                    .serve_connection(TokioIo::new(stream), answer);
                // Whoever broke it off knows.
                let _ = served.await;
                drop(place);
            });
        }
    }
}

impl Shared {
    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(|error| error.into_inner())
    }
}

/// Looks at all runs again and again, and tells what is new.
async fn look(shared: Arc<Shared>) {
    let mut tick = tokio::time::interval(LOOK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let there = Arc::clone(&shared);
        let Ok(news) = tokio::task::spawn_blocking(move || there.watch().refresh()).await else {
            continue;
        };
        let News { rows, gone } = news;
        if !gone.is_empty() {
            let mut robots = shared.robots.lock().unwrap_or_else(|error| error.into_inner());
            robots.retain(|number, _| !gone.contains(number));
        }
        if !rows.is_empty() || !gone.is_empty() {
            // Nobody may listen.
            let _ = shared.news.send(event("news", &json!({"rows": rows, "gone": gone})));
        }
    }
}

fn event(name: &str, data: &Value) -> Arc<str> {
    format!("event: {name}\ndata: {data}\n\n").into()
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

fn whole(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(body.into()).boxed_unsync());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // Nothing from elsewhere, and nobody else's frame.
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; \
             font-src data:; connect-src 'self'; frame-src 'self'; frame-ancestors 'self'",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn refused(status: StatusCode, why: &str) -> Response<Body> {
    whole(status, "text/plain; charset=utf-8", format!("{why}\n"))
}

fn told(value: &Value) -> Response<Body> {
    whole(StatusCode::OK, "application/json", value.to_string())
}

/// Whether a request names this machine itself: another name may be some page's, made to lead here.
fn is_local(request: &Request<Incoming>) -> bool {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether two texts are the same, in a time that does not tell how much of them is.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

async fn answer(shared: &Arc<Shared>, request: Request<Incoming>) -> Response<Body> {
    let query = Query::of(request.uri().query().unwrap_or_default());
    let known = match &shared.token {
        Some(token) => query.get("token").is_some_and(|given| same(given, token)),
        None => is_local(&request),
    };
    if !known {
        let why = "this page needs the token that was printed where it was started";
        return refused(StatusCode::FORBIDDEN, why);
    }
    let path = request.uri().path().to_owned();
    match (request.method(), &path[..]) {
        (&Method::GET, "/") => whole(StatusCode::OK, "text/html; charset=utf-8", page()),
        (&Method::GET, "/events") => events(shared),
        (&Method::POST, "/pdf") => pdf(request).await,
        (&Method::GET, path) => {
            let (shared, path) = (Arc::clone(shared), path.to_owned());
            let answered = tokio::task::spawn_blocking(move || ask(&shared, &path, &query)).await;
            answered.unwrap_or_else(|_| {
                refused(StatusCode::INTERNAL_SERVER_ERROR, "this cannot be answered")
            })
        }
        _ => refused(StatusCode::METHOD_NOT_ALLOWED, "this is only read"),
    }
}

/// What a page asks of one run, or of two.
fn ask(shared: &Shared, path: &str, query: &Query) -> Response<Body> {
    let run = |key: &str| {
        let number: u64 = query.get(key)?.parse().ok()?;
        Some((number, shared.watch().run(number)?.path.clone()))
    };
    let Some((number, folder)) = run("run") else {
        return refused(StatusCode::NOT_FOUND, "there is no such run, or nothing here");
    };
    match path {
        "/series" => {
            let names: Vec<&str> = query.get("names").unwrap_or_default().split(',').collect();
            let mut series = shared.series.lock().unwrap_or_else(|error| error.into_inner());
            told(&series.of(number, &folder, &names))
        }
        "/population" => {
            let generation = query.get("generation").and_then(|text| text.parse().ok());
            told(&answers::population(&folder, generation))
        }
        "/about" => told(&answers::about(&folder)),
        "/compare" => match run("with") {
            Some((_, other)) => told(&answers::compare(&folder, &other)),
            None => refused(StatusCode::NOT_FOUND, "there is no such run to compare with"),
        },
        "/robot" => robot(shared, number, &folder),
        _ => refused(StatusCode::NOT_FOUND, "there is nothing here"),
    }
}

/// The page on which the best policy plays, made once for each policy.
fn robot(shared: &Shared, number: u64, folder: &std::path::Path) -> Response<Body> {
    let best = folder.join("best.safetensors");
    let stamp = format!("{:?}", best.symlink_metadata().and_then(|found| found.modified()).ok());
    // One at a time: it takes a core.
    let mut robots = shared.robots.lock().unwrap_or_else(|error| error.into_inner());
    let html = |page: &str| whole(StatusCode::OK, "text/html; charset=utf-8", page.to_owned());
    if let Some((of, page)) = robots.get(&number).filter(|(of, _)| *of == stamp) {
        let _ = of;
        return html(page);
    }
    match (shared.play)(folder) {
        Ok(page) => {
            if robots.len() >= 16 {
                robots.clear();
            }
            robots.insert(number, (stamp, page.as_str().into()));
            html(&page)
        }
        Err(why) => refused(StatusCode::NOT_FOUND, &why),
    }
}

/// All rows at first, then what is new.
fn events(shared: &Arc<Shared>) -> Response<Body> {
    let news = shared.news.subscribe();
    let state = (Arc::clone(shared), news, true);
    let stream = futures_util::stream::unfold(state, |(shared, mut news, all)| async move {
        let mut text: Option<Arc<str>> = None;
        if !all {
            text = match tokio::time::timeout(BEAT, news.recv()).await {
                Err(_) => Some(":\n\n".into()),
                Ok(Ok(text)) => Some(text),
                // It has missed some.
                Ok(Err(broadcast::error::RecvError::Lagged(_))) => None,
                Ok(Err(broadcast::error::RecvError::Closed)) => return None,
            };
        }
        let text = match text {
            Some(text) => text,
            None => {
                let there = Arc::clone(&shared);
                let rows = tokio::task::spawn_blocking(move || there.watch().rows()).await;
                event("all", &json!({ "rows": rows.unwrap_or_default() }))
            }
        };
        let frame = Frame::data(Bytes::copy_from_slice(text.as_bytes()));
        Some((Ok::<_, Infallible>(frame), (shared, news, false)))
    });
    let mut response = whole(StatusCode::OK, "text/event-stream", "");
    *response.body_mut() = BodyExt::boxed_unsync(StreamBody::new(stream));
    response
}

/// A drawing of the page as PDF.
async fn pdf(request: Request<Incoming>) -> Response<Body> {
    let body = Limited::new(request.into_body(), DRAWING).collect().await;
    let Ok(body) = body.map(|body| body.to_bytes()) else {
        return refused(StatusCode::PAYLOAD_TOO_LARGE, "a drawing has 8 MB at the most");
    };
    let made = tokio::task::spawn_blocking(move || {
        let svg = std::str::from_utf8(&body).map_err(|error| error.to_string())?;
        paint::pdf(svg)
    });
    match made.await {
        Ok(Ok(pdf)) => whole(StatusCode::OK, "application/pdf", pdf),
        Ok(Err(error)) => refused(StatusCode::BAD_REQUEST, &format!("this is no drawing: {error}")),
        Err(_) => refused(StatusCode::BAD_REQUEST, "this is no drawing"),
    }
}

/// The page: everything in one file.
fn page() -> String {
    let font = paint::font_face();
    let css = include_str!("live.css");
    let js = concat!(include_str!("../plot.js"), include_str!("live.js"), include_str!("views.js"));
    let mut page = String::from(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"generator\" content=\"ecrl\"><title>ecrl live</title>",
    );
    let _ = write!(page, "<style>{font}{css}</style></head><body>");
    page += include_str!("live.html");
    let _ = writeln!(page, "<script>{js}</script></body></html>");
    page
}

/// What comes after `?` in an address.
struct Query(Vec<(String, String)>);

impl Query {
    fn of(text: &str) -> Self {
        let pair = |part: &str| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (decoded(key), decoded(value))
        };
        Self(text.split('&').map(pair).collect())
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| &value[..])
    }
}

/// Text of an address with its `%` resolved.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let pair = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let code = pair.and_then(|two| u8::from_str_radix(two, 16).ok());
        match (byte, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = &after[2..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "localhost".into(),
        name => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let query = Query::of("run=12&names=a%2Cb,c&x=%zz%4&flag");
        assert_eq!(query.get("names"), Some("a,b,c"));
        assert_eq!((query.get("x"), query.get("flag")), (Some("%zz%4"), Some("")));
        assert_eq!(query.get("run").and_then(|text| text.parse().ok()), Some(12));
        assert_eq!(query.get("token"), None);
        assert!(same("abc", "abc") && !same("abc", "abd") && !same("abc", "ab"));
    }
}
