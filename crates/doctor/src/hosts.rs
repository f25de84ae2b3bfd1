//! Where agent hosts keep their configuration, and under which names it has the servers.

use std::path::{Path, PathBuf};

use super::formats::Format;

/// A file that may be there.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) host: &'static str,
    pub(super) path: PathBuf,
    pub(super) format: Format,
    /// The key under which the servers are.
    pub(super) servers: &'static str,
    /// Each project has servers of its own, under `projects`.
    pub(super) has_projects: bool,
}

/// Where to look.
#[derive(Debug)]
pub(super) struct Folders {
    pub(super) home: Option<PathBuf>,
    pub(super) current: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, `CODEX_HOME` and the like.
    pub(super) variable: fn(&str) -> Option<PathBuf>,
}

impl Folders {
    pub(super) fn of_this_process() -> Self {
        fn variable(name: &str) -> Option<PathBuf> {
            std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
        }
        Self { home: variable("HOME"), current: std::env::current_dir().ok(), variable }
    }

    /// Every file in which there may be servers.
    pub(super) fn sources(&self) -> Vec<Source> {
        let mut all = Vec::new();
        let mut add = |host, folder: Option<&Path>, path: &str, format, servers| {
            if let Some(folder) = folder {
                let has_projects = path == ".claude.json";
                all.push(Source { host, path: folder.join(path), format, servers, has_projects });
            }
        };
        let home = self.home.as_deref();
        let below = |variable: &str, usual: &str| (self.variable)(variable).or_else(|| Some(home?.join(usual)));
        let (config, current) = (below("XDG_CONFIG_HOME", ".config"), self.current.as_deref());
        let (config, here) = (config.as_deref(), current);
        let on_mac = "Library/Application Support";
        add("Claude Desktop", config, "Claude/claude_desktop_config.json", Format::Json, "mcpServers");
        add(
            "Claude Desktop",
            home,
            &format!("{on_mac}/Claude/claude_desktop_config.json"),
            Format::Json,
            "mcpServers",
        );
        add("Claude Code", home, ".claude.json", Format::Json, "mcpServers");
        add("Claude Code", here, ".mcp.json", Format::Json, "mcpServers");
        add("Cursor", home, ".cursor/mcp.json", Format::Json, "mcpServers");
        add("Cursor", here, ".cursor/mcp.json", Format::Json, "mcpServers");
        add("VS Code", config, "Code/User/mcp.json", Format::Json, "servers");
        add("VS Code", home, &format!("{on_mac}/Code/User/mcp.json"), Format::Json, "servers");
        add("VS Code", here, ".vscode/mcp.json", Format::Json, "servers");
        add("Codex", below("CODEX_HOME", ".codex").as_deref(), "config.toml", Format::Toml, "mcp_servers");
        add("Hermes", below("HERMES_HOME", ".hermes").as_deref(), "config.yaml", Format::Yaml, "mcp_servers");
        add("Zed", config, "zed/settings.json", Format::Json, "context_servers");
        add("Goose", config, "goose/config.yaml", Format::Yaml, "extensions");
        let mut seen = std::collections::HashSet::new();
        all.retain(|source| seen.insert(source.path.clone()));
        all
    }
}
