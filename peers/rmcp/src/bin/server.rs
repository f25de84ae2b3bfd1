//! The server of the tour with the Rust SDK. It serves either protocol, as the client's first line decides.

#![allow(deprecated, reason = "the tour uses everything that the newer protocol has left out, too")]

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rmcp::model::*;
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext, SubscriptionSink};
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
const LOGGED: [&str; 4] = ["debug", "info", "warning", "error"];

/// What the server remembers, and forgets when it ends.
#[derive(Default)]
struct Memory {
    subscribed: BTreeSet<String>,
    listeners: Vec<SubscriptionSink>,
    level: usize,
    cancelled: u32,
}

#[derive(Default)]
struct Tour(Mutex<Memory>);

type Answer<T> = Result<T, ErrorData>;

/// A value of the SDK's from what it looks like on the wire.
fn made<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("the shape that the protocol gives it")
}

fn plain(value: impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("plain data")
}

fn tool(name: &str, properties: &[(&str, &str)]) -> Value {
    let properties: serde_json::Map<_, _> =
        properties.iter().map(|(name, kind)| ((*name).to_owned(), json!({ "type": kind }))).collect();
    let schema = json!({ "type": "object", "properties": properties });
    json!({ "name": name, "description": format!("The tool {name} of the tour."), "inputSchema": schema })
}

impl Tour {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().expect("no holder panics")
    }

    fn listeners(&self) -> Vec<SubscriptionSink> {
        self.memory().listeners.clone()
    }

    /// Asks the client for something: by a request in the older protocol, by a result in the newer.
    async fn ask(
        &self,
        params: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        request: InputRequest,
    ) -> Answer<Result<Value, InputRequiredResult>> {
        if is_modern(context) {
            return Ok(match params.input_responses.as_ref().and_then(|answers| answers.get("it")) {
                Some(answer) => Ok(answer.clone()),
                None => {
                    Err(InputRequiredResult::new(Some([("it".to_owned(), request)].into()), Some("asked".to_owned())))
                }
            });
        }
        let peer = &context.peer;
        let answer = match request {
            InputRequest::CreateMessage(request) => peer.create_message(request.params).await.map(plain),
            InputRequest::Elicitation(request) => peer.create_elicitation(request.params).await.map(plain),
            _ => peer.list_roots().await.map(plain),
        };
        answer.map(Ok).map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }

    async fn run(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Answer<CallToolResponse> {
        let arguments = Value::Object(params.arguments.clone().unwrap_or_default());
        let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| arguments[name].as_i64().unwrap_or_default();
        let said = match params.name.as_ref() {
            "add" => (number("a") + number("b")).to_string(),
            "echo" => text("text"),
            "work" => self.work(&context, number("steps")).await,
            "wait" => {
                // It has begun.
                if let Some(token) = context.meta.get_progress_token() {
                    context.peer.notify_progress(ProgressNotificationParam::new(token, 0.0)).await.ok();
                }
                let time = Duration::from_secs(number("seconds").unsigned_abs());
                tokio::select! {
                    () = tokio::time::sleep(time) => "waited".to_owned(),
                    () = context.ct.cancelled() => {
                        self.memory().cancelled += 1;
                        "stopped".to_owned()
                    }
                }
            }
            "cancelled" => self.memory().cancelled.to_string(),
            "sample" => {
                let message = json!({ "role": "user", "content": { "type": "text", "text": text("prompt") } });
                let request = json!({ "messages": [message], "maxTokens": 50 });
                let request = InputRequest::CreateMessage(CreateMessageRequest::new(made(request)));
                match self.ask(&params, &context, request).await? {
                    Ok(answer) => format!("sampled: {}", answer["content"]["text"].as_str().unwrap_or_default()),
                    Err(question) => return Ok(question.into()),
                }
            }
            "ask" => {
                let schema =
                    json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
                let request = json!({ "mode": "form", "message": text("question"), "requestedSchema": schema });
                let request = InputRequest::Elicitation(ElicitRequest::new(made(request)));
                match self.ask(&params, &context, request).await? {
                    Ok(answer) => {
                        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                        format!("{}: {}", word(&answer["action"]), word(&answer["content"]["name"]))
                    }
                    Err(question) => return Ok(question.into()),
                }
            }
            "roots" => match self.ask(&params, &context, InputRequest::ListRoots(ListRootsRequest::default())).await?
            {
                Ok(answer) => {
                    let roots = answer["roots"].as_array().cloned().unwrap_or_default();
                    roots.iter().filter_map(|root| root["uri"].as_str()).collect::<Vec<_>>().join(" ")
                }
                Err(question) => return Ok(question.into()),
            },
            "log" => self.log(&context).await,
            "touch" => self.touch(&context, &text("uri")).await,
            "announce" => {
                for listener in self.listeners() {
                    listener.notify_tool_list_changed().await.ok();
                }
                if !is_modern(&context) {
                    context.peer.notify_tool_list_changed().await.ok();
                }
                "announced".to_owned()
            }
            "die" => std::process::exit(1),
            name => return Err(ErrorData::invalid_params(format!("no tool '{name}'"), None)),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(said)]).into())
    }

    async fn work(&self, context: &RequestContext<RoleServer>, steps: i64) -> String {
        for step in 1..=steps {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if let Some(token) = context.meta.get_progress_token() {
                let progress = ProgressNotificationParam::new(token, step as f64)
                    .with_total(steps as f64)
                    .with_message(format!("step {step}"));
                context.peer.notify_progress(progress).await.ok();
            }
        }
        // An SDK may drop a progress that arrives together with the answer.
        tokio::time::sleep(Duration::from_millis(50)).await;
        format!("worked {steps}")
    }

    async fn log(&self, context: &RequestContext<RoleServer>) -> String {
        let wanted = if is_modern(context) {
            // In the newer protocol each request says how much it wants to be told, and nothing means nothing.
            context.meta.log_level().map_or(LEVELS.len(), level_number)
        } else {
            self.memory().level
        };
        for level in LOGGED {
            if level_number(made(json!(level))) >= wanted {
                let message = json!({ "level": level, "logger": "tour", "data": format!("this is {level}") });
                context.peer.notify_logging_message(made(message)).await.ok();
            }
        }
        "logged".to_owned()
    }

    async fn touch(&self, context: &RequestContext<RoleServer>, uri: &str) -> String {
        // The SDK acknowledges a subscription before it hands it to `listen`: this request may overtake that.
        tokio::time::sleep(Duration::from_millis(50)).await;
        for listener in self.listeners() {
            // It refuses what its listener has not asked for.
            listener.notify_resource_updated(uri).await.ok();
        }
        let is_subscribed = self.memory().subscribed.contains(uri);
        if !is_modern(context) && is_subscribed {
            context.peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await.ok();
        }
        "touched".to_owned()
    }
}

fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

fn level_number(level: LoggingLevel) -> usize {
    let name = plain(level);
    LEVELS.iter().position(|each| name == *each).expect("one of them")
}

impl ServerHandler for Tour {
    fn get_info(&self) -> ServerConfig {
        let capabilities = json!({
            "tools": { "listChanged": true }, "resources": { "subscribe": true },
            "prompts": {}, "logging": {}, "completions": {},
        });
        ServerConfig::new(made(capabilities))
            .with_server_info(Implementation::new("tour-rmcp", "1.0.0"))
            .with_instructions("Take the tour.")
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Answer<ListToolsResult> {
        let tools = [
            tool("add", &[("a", "integer"), ("b", "integer")]),
            tool("echo", &[("text", "string")]),
            tool("work", &[("steps", "integer")]),
            tool("wait", &[("seconds", "integer")]),
            tool("cancelled", &[]),
            tool("sample", &[("prompt", "string")]),
            tool("ask", &[("question", "string")]),
            tool("roots", &[]),
            tool("log", &[]),
            tool("touch", &[("uri", "string")]),
            tool("announce", &[]),
            tool("die", &[]),
        ];
        Ok(ListToolsResult::with_all_items(tools.map(made).into()))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Answer<CallToolResponse> {
        self.run(params, context).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Answer<ListResourcesResult> {
        let resources = ["greeting", "farewell"]
            .map(|name| made(json!({ "uri": format!("test://{name}"), "name": name, "mimeType": "text/plain" })));
        Ok(ListResourcesResult::with_all_items(resources.into()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Answer<ListResourceTemplatesResult> {
        let template = json!({ "uriTemplate": "test://items/{id}", "name": "item", "mimeType": "text/plain" });
        Ok(ListResourceTemplatesResult::with_all_items(vec![made(template)]))
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Answer<ReadResourceResponse> {
        let text = match params.uri.as_str() {
            "test://greeting" => "hello".to_owned(),
            "test://farewell" => "goodbye".to_owned(),
            uri => match uri.strip_prefix("test://items/") {
                Some(number) => format!("item {number}"),
                None => return Err(ErrorData::resource_not_found(format!("no resource '{uri}'"), None)),
            },
        };
        let contents = json!({ "uri": params.uri, "mimeType": "text/plain", "text": text });
        Ok(ReadResourceResult::new(vec![made(contents)]).into())
    }

    async fn subscribe(&self, params: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Answer<()> {
        self.memory().subscribed.insert(params.uri);
        Ok(())
    }

    async fn unsubscribe(&self, params: UnsubscribeRequestParams, _: RequestContext<RoleServer>) -> Answer<()> {
        self.memory().subscribed.remove(&params.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Answer<()> {
        self.memory().listeners.push(context.sink().clone());
        context.cancelled().await;
        self.memory().listeners.retain(|listener| listener.id() != context.sink().id());
        Ok(())
    }

    async fn set_level(&self, params: SetLevelRequestParams, _: RequestContext<RoleServer>) -> Answer<()> {
        self.memory().level = level_number(params.level);
        Ok(())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Answer<ListPromptsResult> {
        let arguments = json!([{ "name": "name", "required": true }]);
        let prompt = json!({ "name": "greet", "description": "A greeting.", "arguments": arguments });
        Ok(ListPromptsResult::with_all_items(vec![made(prompt)]))
    }

    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Answer<GetPromptResponse> {
        let arguments = plain(&params.arguments);
        let text = format!("Say hello to {}.", arguments["name"].as_str().unwrap_or_default());
        let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
        Ok(made::<GetPromptResult>(json!({ "messages": [message] })).into())
    }

    async fn complete(&self, params: CompleteRequestParams, _: RequestContext<RoleServer>) -> Answer<CompleteResult> {
        let values: Vec<_> =
            ["alice", "anna", "bob"].into_iter().filter(|name| name.starts_with(&params.argument.value)).collect();
        Ok(made(json!({ "completion": { "values": values, "total": values.len(), "hasMore": false } })))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Tour::default().serve(rmcp::transport::stdio()).await?.waiting().await?;
    Ok(())
}
