//! `nostray hosts`: hosts, their files, their servers, and what has become of each.

use nostray_sys::secrets::masked;
use nostray_sys::text::escaped;
use nostray_terminal::{self as terminal, ExitCode, Ink};
use nostray_wrap::survey::{self, Config, Standing};
use nostray_wrap::{Entry, Way};
use serde_json::{Value, json};

pub(crate) use super::args::HostsArgs;
use super::{args, grammar, shown};

pub(crate) fn run(args: &HostsArgs) -> ExitCode {
    let chosen = args::Chosen { host: args.host.clone(), project: args.project.clone(), ..args::Chosen::default() };
    let configs = match chosen.scope() {
        Ok((folders, scope)) => survey::survey(&folders, &scope),
        Err(why) => {
            terminal::complain(&why);
            return ExitCode::from(2);
        }
    };
    if args.json {
        return terminal::print_json(&json!({ "version": 1, "files": configs.iter().map(file).collect::<Value>() }));
    }
    terminal::print(text(&configs).as_bytes())
}

fn standing(entry: &Entry) -> Standing {
    survey::standing(entry, &grammar, &survey::is_program)
}

/// The name of a state, the way, and more words.
fn facts(standing: &Standing) -> (&'static str, Option<Way>, Option<String>) {
    match standing {
        Standing::Wrapped(invocation) => ("wrapped", Some(invocation.way), None),
        Standing::WrappedByHand => ("wrapped", None, Some("another program starts nostray".to_owned())),
        Standing::Broken(why) => ("broken", None, Some(why.clone())),
        Standing::Unwrapped => ("unwrapped", None, None),
        Standing::Disabled => ("disabled", None, None),
        Standing::Remote => ("remote", None, None),
        Standing::Stuck(why) => ("stuck", None, Some((*why).to_owned())),
    }
}

fn file(config: &Config) -> Value {
    let server = |entry: &Entry| {
        let (state, way, detail) = facts(&standing(entry));
        json!({
            "name": entry.name,
            "project": entry.project,
            "line": entry.line,
            "state": state,
            "way": way.map(Way::name),
            "command": masked(&entry.words),
            "variables": entry.env,
            "detail": detail,
        })
    };
    json!({
        "host": config.source.host.map(|host| host.name),
        "id": config.source.host.map(|host| host.id),
        "path": config.source.path.to_string_lossy(),
        "project": config.source.is_of_project,
        "error": config.entries.as_ref().err(),
        "servers": config.entries.iter().flatten().map(server).collect::<Value>(),
    })
}

fn text(configs: &[Config]) -> String {
    let colours = terminal::colours();
    let mut text = String::new();
    let mut unwrapped = 0;
    for config in configs {
        text += &format!(
            "{} ({})\n",
            Ink::Bold.paint(&shown::path(&config.source.path), colours),
            config.source.host_name()
        );
        let entries = match &config.entries {
            Err(why) => {
                text += &format!("  {} {}\n", Ink::Red.paint("cannot be read:", colours), escaped(why));
                continue;
            }
            Ok(entries) if entries.is_empty() => {
                text += "  no servers\n";
                continue;
            }
            Ok(entries) => entries,
        };
        let width = entries.iter().map(|entry| escaped(&entry.name).chars().count()).max().unwrap_or(0);
        for entry in entries {
            let standing = standing(entry);
            let (state, way, detail) = facts(&standing);
            let ink = match standing {
                Standing::Wrapped(_) | Standing::WrappedByHand => Ink::Green,
                Standing::Unwrapped => Ink::Yellow,
                Standing::Broken(_) | Standing::Stuck(_) => Ink::Red,
                Standing::Disabled | Standing::Remote => Ink::Dim,
            };
            unwrapped += usize::from(standing == Standing::Unwrapped);
            let state = format!("{state:<9}");
            let more = detail.unwrap_or_else(|| shown::command(&nostray_wrap::plan::bare(entry, &grammar)));
            let way = way.map_or("", Way::name);
            let project =
                entry.project.as_ref().map_or(String::new(), |project| format!(" (for {})", escaped(project)));
            let line = format!(
                "  {:width$}  {}  {way:<5}  {more}{project}",
                escaped(&entry.name),
                ink.paint(&state, colours)
            );
            text += line.trim_end();
            text.push('\n');
        }
    }
    if configs.is_empty() {
        text += "No configuration of a known host is here. `nostray wrap --file PATH` takes any other.\n";
    } else if unwrapped > 0 {
        text += &format!("\n{unwrapped} not wrapped; `nostray wrap` shows what it would write, and asks.\n");
    }
    text
}
