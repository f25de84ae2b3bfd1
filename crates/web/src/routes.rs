//! What is served, behind the gate.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream;
use nostray_registry::census;
use nostray_view::{Action, Ends, Looker, metrics};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::spawn_blocking;

use crate::actions::{self, Target};
use crate::feed::{Event, Feed, Viewer};
use crate::gate::{self, Gate, METRICS};
use crate::page::Page;

/// A request names one child, and nothing else.
const MAX_BODY: usize = 4096;
/// Each action is a process and a thread that wait for a child to end.
const MAX_ACTIONS: usize = 16;
const JSON: &str = "application/json";

struct Shared {
    page: Page,
    feed: Feed,
    actions: Arc<Semaphore>,
    /// One look for `/metrics` at a time.
    scraping: Mutex<()>,
}

type Here = State<Arc<Shared>>;

pub(crate) fn routes(gate: Arc<Gate>, feed: Feed) -> Router {
    let actions = Arc::new(Semaphore::new(MAX_ACTIONS));
    let shared = Shared { page: Page::new(), feed, actions, scraping: Mutex::new(()) };
    Router::new()
        .route("/", get(|State(here): Here| async move { here.page.answer() }))
        .route("/api/events", get(events))
        .route("/api/history", get(history))
        .route("/api/restart", post(|here, headers, body| act(Action::Restart, here, headers, body)))
        .route("/api/stop", post(|here, headers, body| act(Action::Stop, here, headers, body)))
        .route(METRICS, get(scraped))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(axum::middleware::from_fn_with_state(gate, gate::guard))
        .with_state(Arc::new(shared))
}

/// What a viewer is sent next.
enum Next {
    Join,
    Changes(Viewer),
    Nothing,
}

/// Server-sent events: a snapshot, then changes; another snapshot for a viewer that has missed some.
async fn events(State(here): Here) -> Response {
    let feed = here.feed.clone();
    let stream = stream::unfold((feed, Next::Join), |(feed, next)| async move {
        let mut viewer = match next {
            Next::Nothing => return None,
            Next::Join => {
                let viewer = feed.join().await?;
                return Some((Ok::<Bytes, Infallible>(viewer.snapshot.clone()), (feed, Next::Changes(viewer))));
            }
            Next::Changes(viewer) => viewer,
        };
        match viewer.events.recv().await {
            Ok(Event::Change(change)) => Some((Ok(change), (feed, Next::Changes(viewer)))),
            Ok(Event::End(end)) => Some((Ok(end), (feed, Next::Nothing))),
            Err(RecvError::Lagged(_)) => {
                drop(viewer);
                let viewer = feed.join().await?;
                Some((Ok(viewer.snapshot.clone()), (feed, Next::Changes(viewer))))
            }
            Err(RecvError::Closed) => None,
        }
    });
    ([(CONTENT_TYPE, "text/event-stream")], Body::from_stream(stream)).into_response()
}

async fn history(State(here): Here, uri: Uri) -> Response {
    // An id has only characters that an address does not escape.
    let id = uri.query().and_then(|query| query.strip_prefix("id="));
    match here.feed.history(id.unwrap_or_default().to_owned()).await {
        Some(samples) => json(samples),
        None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

fn json(text: String) -> Response {
    ([(CONTENT_TYPE, JSON)], text).into_response()
}

async fn act(action: Action, State(here): Here, headers: HeaderMap, body: Bytes) -> Response {
    // A form of another page can send neither this type nor a body like this.
    if headers.get(CONTENT_TYPE).is_none_or(|kind| kind != JSON) {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response();
    }
    let Ok(target) = serde_json::from_slice::<Target>(&body) else { return StatusCode::BAD_REQUEST.into_response() };
    let Ok(permit) = here.actions.clone().try_acquire_owned() else {
        return StatusCode::TOO_MANY_REQUESTS.into_response();
    };
    let done = spawn_blocking(move || {
        let _held = permit;
        actions::run(action, &target)
    });
    match done.await {
        Ok(Some(told)) => json(told.to_string()),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The same as `nostray metrics`.
async fn scraped(State(here): Here) -> Response {
    let _alone = here.scraping.lock().await;
    let text = spawn_blocking(|| metrics::text(&Looker::default().thorough(census()), &Ends::count())).await;
    match text {
        Ok(text) => ([(CONTENT_TYPE, metrics::MEDIA_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
