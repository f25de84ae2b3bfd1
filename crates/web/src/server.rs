//! Listens, and serves connections until the end. What a client without the token can take is bounded: connections, the size of a request's
//! head, and the time that it takes to send it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nostray_terminal::{self as terminal, ExitCode};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::args::{Args, USUAL_PORT};
use crate::ending;
use crate::feed::Feed;
use crate::gate::Gate;
use crate::routes::routes;
use crate::token::Token;

const MAX_CONNECTIONS: usize = 128;
/// A request's head: line and headers.
const MAX_HEAD: usize = 16 * 1024;
/// Also how long a connection may wait for its next request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// At the end, viewers are told; a viewer that does not read is not waited for.
const FAREWELL: Duration = Duration::from_millis(500);
/// Before the next try to accept a connection, when there are no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the page until the terminal closes or a signal comes.
pub fn run(args: &Args) -> ExitCode {
    match serve(args) {
        Ok(code) => code,
        Err(why) => {
            terminal::complain(&why);
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &Args) -> Result<ExitCode, String> {
    let told = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let token = args.token_file.as_deref().map_or_else(|| Ok(Token::new()), Token::in_file)?;
    let signals = ending::block_signals().map_err(told("cannot wait for signals"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(told("cannot start the server"))?;
    let code = runtime.block_on(async {
        let listener = listen(args).await?;
        let address = listener.local_addr().map_err(told("cannot listen"))?;
        let gate = Arc::new(Gate::new(address, token));
        let feed = Feed::start().map_err(told("cannot start a thread"))?;
        let app = routes(gate.clone(), feed.clone());
        // Before the address is told, so that a signal or a closed pipe right after it counts.
        let ended = ending::wait_for_end(signals).map_err(told("cannot start a thread"))?;
        let said = format!("{}\nOpen this address in a browser. Ctrl-C ends it.\n", gate.address());
        let printed = terminal::print(said.as_bytes());
        if printed != ExitCode::SUCCESS {
            return Ok(printed);
        }
        Ok(until_end(listener, app, &feed, ended).await)
    });
    // A command that was started by a click goes on by itself.
    runtime.shutdown_background();
    code
}

async fn listen(args: &Args) -> Result<TcpListener, String> {
    let at = |port| SocketAddr::new(args.address, port);
    let bound = match (args.port, TcpListener::bind(at(args.port.unwrap_or(USUAL_PORT))).await) {
        // The user has not asked for this port.
        (None, Err(error)) if error.kind() == io::ErrorKind::AddrInUse => TcpListener::bind(at(0)).await,
        (_, bound) => bound,
    };
    bound.map_err(|error| {
        let port = args.port.map_or_else(String::new, |port| format!(" port {port}"));
        format!("cannot listen on {}{port}: {error}; --port 0 takes any port that is free", args.address)
    })
}

async fn until_end(listener: TcpListener, app: Router, feed: &Feed, ended: oneshot::Receiver<ExitCode>) -> ExitCode {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let (ending, is_ending) = watch::channel(());
    let accepting = accept(&listener, &room, &app, &is_ending);
    let code = tokio::select! {
        code = ended => code.unwrap_or(ExitCode::from(nostray_pen::OWN_FAILURE)),
        code = accepting => code,
    };
    // No new connection; open ones are told.
    drop(listener);
    feed.end();
    drop(ending);
    let all = u32::try_from(MAX_CONNECTIONS).unwrap_or(u32::MAX);
    timeout(FAREWELL, room.acquire_many(all)).await.ok(); // those that do not read are not waited for
    code
}

/// Never returns.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
    app: &Router,
    is_ending: &watch::Receiver<()>,
) -> ExitCode {
    loop {
        // A client beyond the limit waits in the listener's queue.
        let Ok(permit) = room.clone().acquire_owned().await else { return ExitCode::from(nostray_pen::OWN_FAILURE) };
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(connection(stream, app.clone(), is_ending.clone(), permit))),
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn connection(
    stream: TcpStream,
    app: Router,
    mut is_ending: watch::Receiver<()>,
    _permit: OwnedSemaphorePermit,
) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_HEAD);
    let served = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    tokio::pin!(served);
    tokio::select! {
        // A client that goes away, or that speaks no HTTP, is no event of ours.
        _ = &mut served => return,
        _ = is_ending.changed() => served.as_mut().graceful_shutdown(),
    }
    served.await.ok(); // as above
}
