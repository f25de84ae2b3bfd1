//! Tasks: calls that go on after their answer, by names that the child gives them. A task is its session's alone.

use nostray_rpc::find;
use serde_json::Value;

use super::Router;
use super::child_says::mentions_task;
use super::gate::RELATED_TASK;
use super::reverse::text_at;
use super::sessions::SessionId;

/// What JSON-RPC says to params that name something which is not there.
pub(super) const INVALID_PARAMS: i64 = -32602;

impl Router {
    /// Whether the params or the result of what a session says name a task of another.
    pub(super) fn names_a_strange_task(&self, session_id: SessionId, method: &str, json: Option<&[u8]>) -> bool {
        let Some(json) = json.filter(|_| self.tasks.len() > 0) else { return false };
        let is_strange = |path: &[&str]| {
            text_at(json, path).and_then(|name| self.tasks.of(&name)).is_some_and(|owner| owner != session_id)
        };
        let is_about_one = method.starts_with("tasks/") || method.starts_with("notifications/tasks/");
        (is_about_one && is_strange(&["taskId"])) || is_strange(&["_meta", RELATED_TASK, "taskId"])
    }

    /// The child has answered with a task.
    pub(super) fn learn_of_task(&mut self, session_id: Option<SessionId>, result: &[u8]) {
        if let Some(session_id) = session_id.filter(|_| self.is_mcp() && mentions_task(result))
            && let Some(name) = text_at(result, &["task", "taskId"]).or_else(|| text_at(result, &["taskId"]))
            && self.tasks.of(&name).is_none()
        {
            self.tasks.add(&name, session_id);
        }
    }

    /// What a session sees of a list of all tasks: its own. None if all of them are.
    pub(super) fn own_tasks(&self, session_id: SessionId, result: &[u8]) -> Option<Vec<u8>> {
        let mut tasks: Vec<Value> = serde_json::from_slice(&result[find(result, &["tasks"])?]).ok()?;
        let all = tasks.len();
        tasks.retain(|task| task["taskId"].as_str().is_some_and(|name| self.tasks.of(name) == Some(session_id)));
        if tasks.len() == all {
            return None;
        }
        let mut list: Value = serde_json::from_slice(result).ok()?;
        list["tasks"] = Value::Array(tasks);
        Some(list.to_string().into_bytes())
    }
}
