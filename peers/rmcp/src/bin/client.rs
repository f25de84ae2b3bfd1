//! The tour with the Rust SDK as client: `client MODE SERVER ARGUMENTS...`, where MODE is `auto` or `legacy`.
//! See tour.py: the same steps, in the same order.

#![allow(deprecated, reason = "the tour uses everything that the newer protocol has left out, too")]

use std::collections::HashMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{
    ClientLifecycleMode, NotificationContext, PeerRequestOptions, RequestContext, RoleClient, RunningService,
    ServiceError,
};
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientHandler, ClientServiceExt, ErrorData};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// A line separator and a paragraph separator are ordinary characters in JSON, and a line ends in 0x0A alone.
const ODD_TEXT: &str = "line\u{2028}separator \u{2029} \"quoted\" \\ tab\t end\r\n\u{1f680} \u{0}";
const PATIENCE: Duration = Duration::from_secs(10);

/// Nothing is under way, until the server has gone to sleep if it may.
async fn pause() {
    static PAUSES: AtomicU32 = AtomicU32::new(1);
    // A folder in which the test, which sees the server sleep, says when a pause is over; without it, a pause takes its
    // time.
    let Some(gate) = std::env::var_os("TOUR_GATE").map(PathBuf::from) else {
        let seconds = std::env::var("TOUR_PAUSE").ok().and_then(|text| text.parse().ok());
        // Longer than `--hibernate 1s`: nothing is in flight, so the server may go to sleep.
        return sleep(Duration::from_secs_f64(seconds.unwrap_or(1.5))).await;
    };
    let number = PAUSES.fetch_add(1, Ordering::Relaxed);
    std::fs::write(gate.join(format!("waits-{number}")), "").expect("write");
    // The test that was to say so may be gone, and nothing else ends this process.
    let is_on = async {
        while !gate.join(format!("on-{number}")).exists() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(240), is_on).await.expect("the pause does not end");
}

/// A value of the SDK's from what it looks like on the wire.
fn made<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("the shape that the protocol gives it")
}

fn plain(value: impl Serialize) -> Value {
    let mut value = serde_json::to_value(value).expect("plain data");
    if let Some(object) = value.as_object_mut() {
        object.remove("_meta");
    }
    value
}

/// Everything that the server has said by itself since the last step.
#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Heard>>);

#[derive(Default)]
struct Heard {
    /// Each with the call that it is the progress of.
    notes: Vec<(Option<ProgressToken>, Value)>,
    /// The call that was cancelled, or is about to be: its progress does not count.
    cancelled: Option<ProgressToken>,
}

impl Heard {
    /// What is to be written down.
    fn notes(&self) -> impl Iterator<Item = &Value> {
        let is_wanted = |of: &Option<ProgressToken>| of.is_none() || *of != self.cancelled;
        self.notes.iter().filter(move |(of, _)| is_wanted(of)).map(|(_, note)| note)
    }

    /// Whether the call that is about to be cancelled has come as far as to say so.
    fn has_begun(&self) -> bool {
        self.notes.iter().any(|(of, _)| of.is_some() && *of == self.cancelled)
    }
}

impl Ear {
    fn hear(&self, what: &str, said: Value) {
        self.heard().notes.push((None, json!([what, said])));
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().expect("no holder panics")
    }
}

impl ClientHandler for Ear {
    fn get_info(&self) -> ClientConfig {
        let capabilities = json!({ "sampling": {}, "elicitation": {}, "roots": { "listChanged": true } });
        ClientConfig::new(made(capabilities), Implementation::new("tour-rmcp", "1.0.0"))
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.hear("sampling/createMessage", plain(params));
        let content = json!({ "type": "text", "text": "a sample" });
        Ok(made(json!({ "role": "assistant", "content": content, "model": "tour", "stopReason": "endTurn" })))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.hear("elicitation/create", plain(params));
        Ok(made(json!({ "action": "accept", "content": { "name": "Ada" } })))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.hear("roots/list", json!({}));
        let roots = ["one", "two"].map(|name| json!({ "uri": format!("file:///tour/{name}"), "name": name }));
        Ok(made(json!({ "roots": roots })))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let note = json!(["progress", [params.progress, params.total, params.message]]);
        self.heard().notes.push((Some(params.progress_token), note));
    }

    async fn on_logging_message(&self, params: LoggingMessageNotificationParam, _: NotificationContext<RoleClient>) {
        self.hear("notifications/message", plain(params));
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.hear("notifications/resources/updated", plain(params));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.hear("notifications/tools/list_changed", json!({}));
    }
}

/// The client, with what it remembers of its own wishes.
struct Peer {
    service: RunningService<RoleClient, Ear>,
    is_modern: bool,
    level: Mutex<Option<LoggingLevel>>,
    subscriptions: Mutex<HashMap<String, Following>>,
}

/// A subscription that is listened to, until it is told to stop.
type Following = (oneshot::Sender<()>, JoinHandle<()>);

/// What a step has brought: an answer, or an error as the tour writes it down.
type Brought = Result<Value, Value>;

fn brought<T: Serialize>(result: Result<T, ServiceError>) -> Brought {
    match result {
        Ok(answer) => Ok(plain(answer)),
        Err(ServiceError::McpError(error)) => Err(json!({ "refused": [error.code, error.message] })),
        Err(error) => Err(failed(error)),
    }
}

fn failed(error: impl Display) -> Value {
    json!({ "failed": error.to_string() })
}

impl Peer {
    fn call_params(&self, name: &str, arguments: Value) -> CallToolRequestParams {
        let mut params: CallToolRequestParams = made(json!({ "name": name, "arguments": arguments }));
        let level = *self.level.lock().expect("no holder panics");
        if let Some(level) = level.filter(|_| self.is_modern) {
            // In the newer protocol each request says how much it wants to be told.
            let mut meta = RequestMetaObject::new();
            meta.set_log_level(level);
            params.meta = Some(meta);
        }
        params
    }

    async fn call(&self, name: &str, arguments: Value) -> Brought {
        brought(self.service.call_tool(self.call_params(name, arguments)).await)
    }

    /// Cancels a call when the server says that it has begun: an SDK that reads a call together with its cancel may go
    /// on with it.
    async fn cancel(&self, name: &str, arguments: Value) -> Brought {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(self.call_params(name, arguments)));
        let handle =
            self.service.send_cancellable_request(request, PeerRequestOptions::no_options()).await.map_err(failed)?;
        let ear = self.service.service();
        ear.heard().cancelled = Some(handle.progress_token.clone());
        let deadline = Instant::now() + PATIENCE;
        while !ear.heard().has_begun() && Instant::now() < deadline {
            sleep(Duration::from_millis(10)).await;
        }
        handle.cancel(Some("the tour".to_owned())).await.map_err(failed)?;
        Ok(json!("cancelled"))
    }

    async fn list(&self, what: &str) -> Brought {
        match what {
            "tools" => brought(self.service.list_tools(None).await),
            "resources" => brought(self.service.list_resources(None).await),
            "templates" => brought(self.service.list_resource_templates(None).await),
            _ => brought(self.service.list_prompts(None).await),
        }
    }

    async fn read(&self, uri: &str) -> Brought {
        brought(self.service.read_resource(ReadResourceRequestParams::new(uri)).await)
    }

    async fn prompt(&self, name: &str, arguments: Value) -> Brought {
        brought(self.service.get_prompt(made(json!({ "name": name, "arguments": arguments }))).await)
    }

    async fn complete(&self, prompt: &str, argument: &str, value: &str) -> Brought {
        let reference = json!({ "type": "ref/prompt", "name": prompt });
        let params = json!({ "ref": reference, "argument": { "name": argument, "value": value } });
        brought(self.service.complete(made(params)).await)
    }

    async fn set_level(&self, level: &str) -> Brought {
        let level: LoggingLevel = made(json!(level));
        *self.level.lock().expect("no holder panics") = Some(level);
        if self.is_modern {
            Ok(Value::Null)
        } else {
            brought(self.service.set_level(SetLevelRequestParams::new(level)).await)
        }
    }

    async fn subscribe(&self, uri: &str) -> Brought {
        if !self.is_modern {
            return brought(self.service.subscribe(SubscribeRequestParams::new(uri)).await);
        }
        let filter = json!({ "toolsListChanged": true, "resourceSubscriptions": [uri] });
        let mut subscription = self.service.listen(made(filter)).await.map_err(failed)?;
        let honoured = plain(subscription.acknowledged());
        let ear = self.service.service().clone();
        let (stop, mut stopped) = oneshot::channel();
        let following = tokio::spawn(async move {
            loop {
                let next = tokio::select! {
                    _ = &mut stopped => {
                        subscription.cancel().await.ok();
                        return;
                    }
                    next = subscription.next() => next,
                };
                match next {
                    Ok(Some(notification)) => {
                        let mut said = plain(notification);
                        if let Some(params) = said["params"].as_object_mut() {
                            params.remove("_meta");
                        }
                        ear.hear("event", said);
                    }
                    // Not we have ended it.
                    Ok(None) => return ear.hear("subscription over", json!(format!("{:?}", subscription.end()))),
                    Err(error) => return ear.hear("subscription broken", failed(error)),
                }
            }
        });
        self.subscriptions.lock().expect("no holder panics").insert(uri.to_owned(), (stop, following));
        Ok(honoured)
    }

    async fn unsubscribe(&self, uri: &str) -> Brought {
        if !self.is_modern {
            return brought(self.service.unsubscribe(UnsubscribeRequestParams::new(uri)).await);
        }
        let found = self.subscriptions.lock().expect("no holder panics").remove(uri);
        if let Some((stop, following)) = found {
            stop.send(()).ok();
            following.await.map_err(failed)?;
        }
        Ok(Value::Null)
    }

    /// Calls a tool until it says this: what it tells about is on its way.
    async fn until(&self, tool: &str, text: &str) -> Brought {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.call(tool, json!({})).await?;
            if answer["content"][0]["text"] == text || Instant::now() > deadline {
                return Ok(answer);
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Calls that are all in flight together.
    async fn at_once(&self, tool: &str, name: &str) -> Brought {
        let mut handles = Vec::new();
        for number in 0..20 {
            let params = self.call_params(tool, json!({ name: format!("number {number}") }));
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
            let sent = self.service.send_cancellable_request(request, PeerRequestOptions::no_options());
            handles.push(sent.await.map_err(failed)?);
        }
        let mut answers = Vec::new();
        for handle in handles {
            answers.push(brought(handle.await_response().await)?);
        }
        Ok(Value::Array(answers))
    }
}

/// What was seen, step by step.
struct Diary<'a> {
    peer: &'a Peer,
    quiet: fn(&Value) -> bool,
    steps: Vec<Value>,
}

impl Diary<'_> {
    /// Does one thing, and waits until as much was heard as a server says about it.
    async fn step(&mut self, name: &str, act: impl Future<Output = Brought>, expect: usize) {
        let answer = act.await.unwrap_or_else(|error| error);
        let deadline = Instant::now() + PATIENCE;
        while self.loud().len() < expect && Instant::now() < deadline {
            sleep(Duration::from_millis(10)).await;
        }
        let mut heard = self.loud();
        // The SDK handles each notification in a task of its own.
        heard.sort_by_key(Value::to_string);
        self.peer.service.service().heard().notes.clear();
        self.steps.push(json!({ "step": name, "answer": answer, "heard": heard }));
    }

    fn loud(&self) -> Vec<Value> {
        self.peer.service.service().heard().notes().filter(|note| !(self.quiet)(note)).cloned().collect()
    }
}

/// Against one of the servers of this folder.
async fn own_server(peer: &Peer, diary: &mut Diary<'_>) {
    let greeting = json!({ "uri": "test://greeting" });
    for what in ["tools", "resources", "templates", "prompts"] {
        diary.step(&format!("list {what}"), peer.list(what), 0).await;
    }
    diary.step("add", peer.call("add", json!({ "a": 2, "b": 3 })), 0).await;
    diary.step("echo", peer.call("echo", json!({ "text": ODD_TEXT })), 0).await;
    diary.step("echo much", peer.call("echo", json!({ "text": "nostray ".repeat(30_000) })), 0).await;
    diary.step("progress", peer.call("work", json!({ "steps": 3 })), 3).await;
    diary.step("cancel", peer.cancel("wait", json!({ "seconds": 60 })), 0).await;
    diary.step("was cancelled", peer.until("cancelled", "1"), 0).await;
    diary.step("sample", peer.call("sample", json!({ "prompt": "a haiku" })), 1).await;
    diary.step("elicit", peer.call("ask", json!({ "question": "Who are you?" })), 1).await;
    diary.step("roots", peer.call("roots", json!({})), 1).await;
    diary.step("level", peer.set_level("warning"), 0).await;
    diary.step("log", peer.call("log", json!({})), 2).await;
    diary.step("subscribe", peer.subscribe("test://greeting"), 0).await;
    diary.step("touch", peer.call("touch", greeting.clone()), 1).await;
    diary.step("touch another", peer.call("touch", json!({ "uri": "test://farewell" })), 0).await;
    diary.step("complete", peer.complete("greet", "name", "a"), 0).await;
    diary.step("prompt", peer.prompt("greet", json!({ "name": "Ada" })), 0).await;

    pause().await;
    diary.step("add after a pause", peer.call("add", json!({ "a": 20, "b": 30 })), 0).await;
    diary.step("log after a pause", peer.call("log", json!({})), 2).await;
    diary.step("touch after a pause", peer.call("touch", greeting.clone()), 1).await;
    diary.step("sample after a pause", peer.call("sample", json!({ "prompt": "again" })), 1).await;

    pause().await;
    diary.step("read after a pause", peer.read("test://greeting"), 0).await;
    diary.step("read a template", peer.read("test://items/7"), 0).await;
    diary.step("touch after two pauses", peer.call("touch", greeting.clone()), 1).await;
    diary.step("elicit after two pauses", peer.call("ask", json!({ "question": "Still there?" })), 1).await;
    diary.step("progress after two pauses", peer.call("work", json!({ "steps": 2 })), 2).await;
    diary.step("roots after two pauses", peer.call("roots", json!({})), 1).await;
    diary.step("announce", peer.call("announce", json!({})), 1).await;
    diary.step("unsubscribe", peer.unsubscribe("test://greeting"), 0).await;
    diary.step("touch unheard", peer.call("touch", greeting), 0).await;
    diary.step("many at once", peer.at_once("echo", "text"), 0).await;
    diary.step("no such tool", peer.call("nothing", json!({})), 0).await;
    diary.step("no such resource", peer.read("test://nothing"), 0).await;
}

/// What server-everything says as often as it likes, or so late that an SDK may drop it.
fn chatter(note: &Value) -> bool {
    // After every start it announces its tools and asks for the roots; the last progress comes in one breath with the
    // answer.
    let at_start = note[0] == "notifications/tools/list_changed" || note[0] == "roots/list";
    at_start || (note[0] == "progress" && note[1][0] == note[1][1])
}

/// Against @modelcontextprotocol/server-everything.
async fn everything(peer: &Peer, diary: &mut Diary<'_>) {
    let document = "demo://resource/static/document/features.md";
    let (work, toggle) = ("trigger-long-running-operation", "toggle-subscriber-updates");
    // A third of a second after the start it asks for the roots, and says so.
    diary.step("start", async { Ok(Value::Null) }, 1).await;
    for what in ["tools", "resources", "templates", "prompts"] {
        diary.step(&format!("list {what}"), peer.list(what), 0).await;
    }
    diary.step("add", peer.call("get-sum", json!({ "a": 2, "b": 3 })), 0).await;
    diary.step("echo", peer.call("echo", json!({ "message": ODD_TEXT })), 0).await;
    diary.step("echo much", peer.call("echo", json!({ "message": "nostray ".repeat(30_000) })), 0).await;
    diary.step("structured", peer.call("get-structured-content", json!({ "location": "Chicago" })), 0).await;
    diary.step("image", peer.call("get-tiny-image", json!({})), 0).await;
    diary.step("progress", peer.call(work, json!({ "duration": 0.3, "steps": 3 })), 2).await;
    // It works on, unheard; a pause later that is over.
    diary.step("cancel", peer.cancel(work, json!({ "duration": 4, "steps": 20 })), 0).await;
    let haiku = json!({ "prompt": "a haiku", "maxTokens": 20 });
    diary.step("sample", peer.call("trigger-sampling-request", haiku), 1).await;
    diary.step("elicit", peer.call("trigger-elicitation-request", json!({})), 1).await;
    diary.step("roots", peer.call("get-roots-list", json!({})), 0).await;
    diary.step("level", peer.set_level("info"), 0).await;
    diary.step("subscribe", peer.subscribe(document), 1).await;
    diary.step("level again", peer.set_level("error"), 0).await;
    diary.step("updates on", peer.call(toggle, json!({})), 1).await;
    diary.step("updates off", peer.call(toggle, json!({})), 0).await;
    diary.step("complete", peer.complete("completable-prompt", "department", "S"), 0).await;
    diary.step("prompt", peer.prompt("args-prompt", json!({ "city": "Paris" })), 0).await;

    pause().await;
    diary.step("add after a pause", peer.call("get-sum", json!({ "a": 20, "b": 30 })), 0).await;
    diary.step("updates on after a pause", peer.call(toggle, json!({})), 1).await;
    diary.step("updates off after a pause", peer.call(toggle, json!({})), 0).await;
    diary.step("sample after a pause", peer.call("trigger-sampling-request", json!({ "prompt": "more" })), 1).await;
    // Until it has asked for the roots: the next pause should be quiet.
    diary.step("progress after a pause", peer.call(work, json!({ "duration": 0.8, "steps": 2 })), 1).await;

    pause().await;
    diary.step("read after a pause", peer.read(document), 0).await;
    diary.step("elicit after two pauses", peer.call("trigger-elicitation-request", json!({})), 1).await;
    // Again: an SDK may stumble over a question that comes while it leaves.
    diary.step("progress after two pauses", peer.call(work, json!({ "duration": 0.8, "steps": 2 })), 1).await;
    // At level `error`, it does not tell that it unsubscribes.
    diary.step("unsubscribe", peer.unsubscribe(document), 0).await;
    diary.step("updates unheard", peer.call(toggle, json!({})), 0).await;
    diary.step("many at once", peer.at_once("echo", "message"), 0).await;
    diary.step("no such tool", peer.call("nothing", json!({})), 0).await;
    diary.step("no such resource", peer.read("demo://nothing"), 0).await;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (mode, program) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut command = tokio::process::Command::new(program);
    command.args(words);
    let lifecycle = match mode.as_str() {
        "legacy" => ClientLifecycleMode::Initialize,
        _ => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        },
    };
    let service = Ear::default().serve_with_lifecycle(TokioChildProcess::new(command)?, lifecycle).await?;
    let info = service.peer_info().expect("connected");
    let server = info.server_info.as_ref().map(|server| server.name.clone()).unwrap_or_default();
    let about = json!({
        "version": info.protocol_version.to_string(), "server": server,
        "capabilities": plain(&info.capabilities), "instructions": info.instructions,
    });
    let is_modern = !info.protocol_version.has_initialize();
    let peer = Peer { service, is_modern, level: Mutex::default(), subscriptions: Mutex::default() };
    let is_everything = server == "mcp-servers/everything";
    let quiet = if is_everything { chatter } else { |_: &Value| false };
    let mut diary = Diary { peer: &peer, quiet, steps: Vec::new() };
    if is_everything {
        everything(&peer, &mut diary).await;
    } else {
        own_server(&peer, &mut diary).await;
    }
    println!("{}", json!({ "about": about, "steps": diary.steps }));
    peer.service.cancel().await?;
    Ok(())
}
