//! The same for Prometheus, in its text format.

use std::fmt::Write;

use nostray_registry::{BOUNDS, MethodSeen};

use crate::ends::Ends;
use crate::listed::{Condition, Listed};
use crate::saved::Saved;

/// The media type.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// One family of metrics: its lines, behind HELP and TYPE.
struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl<'a> Family<'a> {
    fn new(text: &'a mut String, name: &'static str, kind: &str, help: &str) -> Self {
        text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        Self { text, name }
    }

    fn line(&mut self, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.line_of("", labels, value);
    }

    fn line_of(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let mut told = String::new();
        for (name, value) in labels {
            let separator = if told.is_empty() { "" } else { "," };
            write!(told, "{separator}{name}=\"{}\"", label_value(value)).ok(); // a String takes everything
        }
        let labels = if told.is_empty() { told } else { format!("{{{told}}}") };
        self.text.push_str(&format!("{}{suffix}{labels} {value}\n", self.name));
    }
}

/// Backslash, quote and line end are escaped, as the format wants it.
fn label_value(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// All metrics.
#[must_use]
pub fn text(children: &[Listed], ends: &Ends) -> String {
    let mut text = String::new();
    let version = env!("CARGO_PKG_VERSION");
    Family::new(&mut text, "nostray_build_info", "gauge", "The version of nostray that says this.")
        .line(&[("version", version)], 1);
    totals(&mut text, children, ends);
    of_each(&mut text, children);
    calls(&mut text, children);
    text
}

fn totals(text: &mut String, children: &[Listed], ends: &Ends) {
    let mut states = Family::new(text, "nostray_children", "gauge", "Children on record, by state.");
    for condition in Condition::ALL {
        let count = children.iter().filter(|child| child.condition == condition).count();
        states.line(&[("state", condition.word())], count);
    }
    let sessions: usize = children.iter().map(Listed::sessions).sum();
    Family::new(text, "nostray_sessions", "gauge", "Sessions that use a child.").line(&[], sessions);
    let saved: Saved = children.iter().map(Listed::saved).sum();
    let mut family =
        Family::new(text, "nostray_saved_bytes", "gauge", "Memory that sharing and sleeping save, in bytes.");
    family.line(&[("by", "sharing")], saved.sharing);
    family.line(&[("by", "sleeping")], saved.sleeping);
    let help = "Children that have ended, by reason: a word of the journal, or exited, failed or killed for a child \
                that ended by itself.";
    let mut family = Family::new(text, "nostray_ends_total", "counter", help);
    for (reason, times) in &ends.by_reason {
        family.line(&[("reason", reason)], times);
    }
}

/// What a metric of one child is about.
fn labels(child: &Listed) -> [(&'static str, &str); 2] {
    [("id", &child.pen.id), ("name", &child.name)]
}

fn of_each(text: &mut String, children: &[Listed]) {
    let mut gauge = |name, kind, help, value: &dyn Fn(&Listed) -> Option<f64>| {
        let mut family = Family::new(text, name, kind, help);
        for child in children {
            if let Some(value) = value(child) {
                family.line(&labels(child), value);
            }
        }
    };
    let running = |child: &&Listed| child.is_running();
    gauge("nostray_child_memory_bytes", "gauge", "Memory of the child's tree, in bytes.", &|child| {
        Some(child).filter(running).map(|child| child.tally.memory as f64)
    });
    gauge("nostray_child_processes", "gauge", "Processes of the child's tree.", &|child| {
        Some(child.tally.processes as f64)
    });
    let help = "Processor time of the child's tree, with processes of it that have ended, in seconds.";
    gauge("nostray_child_cpu_seconds_total", "counter", help, &|child| {
        let all = || child.pen.tree.iter().map(|stat| stat.cpu_with_reaped().as_secs_f64()).sum();
        Some(child).filter(running).map(|_| all())
    });
    gauge("nostray_child_sessions", "gauge", "Sessions that use the child.", &|child| Some(child.sessions() as f64));
    let help = "How often the child was started again.";
    gauge("nostray_child_restarts_total", "counter", help, &|child| child.restarts().map(|times| times as f64));
    let help = "When the child's keeper was started, in seconds of Unix time.";
    gauge("nostray_child_start_time_seconds", "gauge", help, &|child| {
        child.record().map(|record| record.started as f64 / 1000.0)
    });
    let help = "Messages between the sessions of a supervised or shared child and the child, in both directions.";
    gauge("nostray_messages_total", "counter", help, &|child| {
        child.traffic.as_ref().map(|traffic| traffic.messages as f64)
    });
}

/// Takes the labels of a method of a child, and what was counted of it.
type TakeMethod<'a> = dyn FnMut(&[(&str, &str)], &MethodSeen) + 'a;

fn calls(text: &mut String, children: &[Listed]) {
    let each = |take: &mut TakeMethod<'_>| {
        for child in children {
            for method in child.traffic.iter().flat_map(|traffic| &traffic.methods) {
                let [id, name] = labels(child);
                take(&[id, name, ("mcp_method_name", &method.name)], method);
            }
        }
    };
    let help = "Calls to a supervised or shared child that have ended, by method.";
    let mut family = Family::new(text, "nostray_calls_total", "counter", help);
    each(&mut |labels, method| family.line(labels, method.calls));
    let help = "Calls that were answered with an error, by the child or on its behalf.";
    let mut family = Family::new(text, "nostray_call_errors_total", "counter", help);
    each(&mut |labels, method| family.line(labels, method.errors));
    let help =
        "How long the child took to answer a call, in seconds. Calls without an answer of the child are left out.";
    let mut family = Family::new(text, "nostray_call_duration_seconds", "histogram", help);
    each(&mut |labels, method| duration(&mut family, labels, method));
}

fn duration(family: &mut Family<'_>, labels: &[(&str, &str)], method: &MethodSeen) {
    let mut so_far = 0;
    for (bound, times) in BOUNDS.iter().zip(method.times) {
        so_far += times;
        let bound = bound.to_string();
        family.line_of("_bucket", &[labels, &[("le", &bound)]].concat(), so_far);
    }
    family.line_of("_bucket", &[labels, &[("le", "+Inf")]].concat(), method.answers);
    family.line_of("_sum", labels, method.time.as_secs_f64());
    family.line_of("_count", labels, method.answers);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = String::new();
        Family::new(&mut text, "a", "gauge", "b").line(&[("x", "a\"b\\c\nd"), ("y", "é")], 1.5);
        assert_eq!(text, "# HELP a b\n# TYPE a gauge\na{x=\"a\\\"b\\\\c\\nd\",y=\"é\"} 1.5\n");
    }

    #[test]
    fn without_a_child_every_state_is_there() {
        let text = text(&[], &Ends::default());
        for condition in Condition::ALL {
            assert!(text.contains(&format!("nostray_children{{state=\"{}\"}} 0\n", condition.word())), "{text}");
        }
        assert!(text.contains("nostray_saved_bytes{by=\"sharing\"} 0\n"));
    }
}
