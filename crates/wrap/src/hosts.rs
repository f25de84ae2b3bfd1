//! Agent hosts: where each keeps its configuration, in which format, and how an entry for a server looks there. The one table of `wrap`,
//! `unwrap`, `hosts` and `doctor`. The paths of macOS and Windows are data for the day on which nostray runs there.

use std::path::{Path, PathBuf};

use crate::document::Format;

/// A host.
#[derive(Debug, PartialEq, Eq)]
pub struct Host {
    /// The name by which a command line names it.
    pub id: &'static str,
    /// The name that people know.
    pub name: &'static str,
    /// Its files.
    pub files: &'static [File],
    /// What its users have to do after a change.
    pub reload: &'static str,
    /// The names of its processes.
    pub programs: &'static [&'static str],
}

/// A file, or several of one kind, in which a host keeps servers.
#[derive(Debug, PartialEq, Eq)]
pub struct File {
    /// The folder that the path begins at.
    pub from: From,
    /// The path on Linux. `*` stands for any name.
    pub linux: &'static str,
    /// The path on macOS, if it differs.
    pub mac: Option<&'static str>,
    /// The path on Windows, if it differs.
    pub windows: Option<&'static str>,
    /// How it is written.
    pub format: Format,
    /// Where in it the servers are, and how an entry looks.
    pub shape: Shape,
    /// How the host's own writers keep out of each other's way.
    pub lock: Lock,
}

/// Where the servers are in a file, and how an entry looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The names that lead to the servers. `*` stands for every project of the file.
    pub servers: &'static [&'static [&'static str]],
    /// A command in one string is split by the host.
    pub splits: bool,
}

/// The folder that a path begins at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// The user's home.
    Home,
    /// The value of a variable, or a folder of the home.
    Variable(&'static str, &'static str),
    /// Where applications keep their settings: `~/.config`, `~/Library/Application Support`, `%APPDATA%`.
    Applications,
    /// `~/.config` on macOS, too; `%APPDATA%` on Windows.
    Config,
    /// A project.
    Project,
}

/// How the host's own writers keep out of each other's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    /// There is no such rule.
    None,
    /// A folder beside the file, with `.lock` behind the file's name, is made by a writer and removed after it has written. A folder
    /// that was not touched for ten seconds is left over (the package `proper-lockfile`).
    Folder,
}

/// The system whose paths are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// Linux
    Linux,
    /// macOS
    Mac,
    /// Windows
    Windows,
}

const SERVERS: Shape = Shape { servers: &[&["mcpServers"]], splits: false };
const VS_CODE: Shape = Shape { servers: &[&["servers"]], splits: false };
const CODEX: Shape = Shape { servers: &[&["mcp_servers"]], splits: false };
const CURSOR: Shape = Shape { servers: &[&["mcpServers"]], splits: true };
const OPENCODE: Shape = Shape { servers: &[&["mcp"], &["mcp", "servers"]], splits: false };

const fn file(from: From, linux: &'static str, format: Format, shape: Shape) -> File {
    File { from, linux, mac: None, windows: None, format, shape, lock: Lock::None }
}

const fn json(from: From, linux: &'static str) -> File {
    file(from, linux, Format::Json, SERVERS)
}

const fn code(linux: &'static str) -> File {
    file(From::Applications, linux, Format::Json, VS_CODE)
}

const RESTART: &str = "restart it";
const ITSELF: &str = "it reads the file by itself; if its servers stay as they are, restart it";

const fn host(
    id: &'static str,
    name: &'static str,
    programs: &'static [&'static str],
    files: &'static [File],
) -> Host {
    Host { id, name, files, reload: RESTART, programs }
}

/// Every host.
pub const HOSTS: &[Host] = &[
    host(
        "claude-desktop",
        "Claude Desktop",
        &["claude-desktop"],
        &[json(From::Applications, "Claude/claude_desktop_config.json")],
    ),
    host(
        "claude-code",
        "Claude Code",
        &["claude"],
        &[
            File {
                lock: Lock::Folder,
                ..file(
                    From::Variable("CLAUDE_CONFIG_DIR", ""),
                    ".claude.json",
                    Format::Json,
                    Shape { servers: &[&["mcpServers"], &["projects", "*", "mcpServers"]], splits: false },
                )
            },
            json(From::Project, ".mcp.json"),
        ],
    ),
    Host {
        reload: ITSELF,
        ..host(
            "cursor",
            "Cursor",
            &["cursor"],
            &[
                file(From::Home, ".cursor/mcp.json", Format::Json, CURSOR),
                file(From::Project, ".cursor/mcp.json", Format::Json, CURSOR),
            ],
        )
    },
    Host {
        reload: "say `MCP: List Servers` and restart each server, or restart it",
        ..host(
            "vs-code",
            "VS Code",
            &["code", "code-insiders", "codium"],
            &[
                code("Code/User/mcp.json"),
                code("Code/User/profiles/*/mcp.json"),
                code("Code - Insiders/User/mcp.json"),
                code("Code - Insiders/User/profiles/*/mcp.json"),
                code("VSCodium/User/mcp.json"),
                code("VSCodium/User/profiles/*/mcp.json"),
                file(From::Project, ".vscode/mcp.json", Format::Json, VS_CODE),
            ],
        )
    },
    host(
        "copilot",
        "Copilot CLI",
        &["copilot"],
        &[json(From::Variable("COPILOT_HOME", ".copilot"), "mcp-config.json")],
    ),
    Host {
        reload: ITSELF,
        ..host(
            "zed",
            "Zed",
            &["zed", "zed-editor"],
            &[
                File {
                    windows: Some("Zed/settings.json"),
                    ..file(
                        From::Config,
                        "zed/settings.json",
                        Format::Json,
                        Shape { servers: &[&["context_servers"]], splits: false },
                    )
                },
                file(
                    From::Project,
                    ".zed/settings.json",
                    Format::Json,
                    Shape { servers: &[&["context_servers"]], splits: false },
                ),
            ],
        )
    },
    host(
        "codex",
        "Codex",
        &["codex"],
        &[
            file(From::Variable("CODEX_HOME", ".codex"), "config.toml", Format::Toml, CODEX),
            file(From::Project, ".codex/config.toml", Format::Toml, CODEX),
        ],
    ),
    host(
        "hermes",
        "Hermes",
        &["hermes"],
        &[file(From::Variable("HERMES_HOME", ".hermes"), "config.yaml", Format::Yaml, CODEX)],
    ),
    host(
        "goose",
        "Goose",
        &["goose", "goosed"],
        &[File {
            windows: Some("Block/goose/config/config.yaml"),
            ..file(
                From::Config,
                "goose/config.yaml",
                Format::Yaml,
                Shape { servers: &[&["extensions"]], splits: false },
            )
        }],
    ),
    Host {
        reload: ITSELF,
        ..host(
            "continue",
            "Continue",
            &["cn"],
            &[
                file(From::Home, ".continue/config.yaml", Format::Yaml, SERVERS),
                file(From::Home, ".continue/mcpServers/*.yaml", Format::Yaml, SERVERS),
                file(From::Project, ".continue/mcpServers/*.yaml", Format::Yaml, SERVERS),
                json(From::Project, ".continue/mcpServers/*.json"),
            ],
        )
    },
    host(
        "gemini",
        "Gemini CLI",
        &["gemini"],
        &[json(From::Home, ".gemini/settings.json"), json(From::Project, ".gemini/settings.json")],
    ),
    host(
        "qwen",
        "Qwen Code",
        &["qwen"],
        &[json(From::Home, ".qwen/settings.json"), json(From::Project, ".qwen/settings.json")],
    ),
    host(
        "opencode",
        "OpenCode",
        &["opencode"],
        &[
            file(From::Config, "opencode/opencode.json", Format::Json, OPENCODE),
            file(From::Config, "opencode/opencode.jsonc", Format::Json, OPENCODE),
            file(From::Project, "opencode.json", Format::Json, OPENCODE),
            file(From::Project, "opencode.jsonc", Format::Json, OPENCODE),
        ],
    ),
    host(
        "openclaw",
        "OpenClaw",
        &["openclaw"],
        &[file(
            From::Home,
            ".openclaw/openclaw.json",
            Format::Json5,
            Shape { servers: &[&["mcp", "servers"]], splits: false },
        )],
    ),
    host(
        "amp",
        "Amp",
        &["amp"],
        &[
            file(
                From::Config,
                "amp/settings.json",
                Format::Json,
                Shape { servers: &[&["amp.mcpServers"]], splits: false },
            ),
            file(
                From::Config,
                "amp/settings.jsonc",
                Format::Json,
                Shape { servers: &[&["amp.mcpServers"]], splits: false },
            ),
        ],
    ),
    Host {
        reload: ITSELF,
        ..host(
            "cline",
            "Cline",
            &["cline"],
            &[
                json(From::Home, ".cline/data/settings/cline_mcp_settings.json"),
                json(
                    From::Applications,
                    "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
                ),
            ],
        )
    },
    Host {
        reload: ITSELF,
        ..host(
            "roo",
            "Roo",
            &[],
            &[
                json(
                    From::Applications,
                    "Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
                ),
                json(From::Project, ".roo/mcp.json"),
            ],
        )
    },
    host("windsurf", "Windsurf", &["windsurf"], &[json(From::Home, ".codeium/windsurf/mcp_config.json")]),
    Host {
        reload: ITSELF,
        ..host(
            "kiro",
            "Kiro",
            &["kiro"],
            &[json(From::Home, ".kiro/settings/mcp.json"), json(From::Project, ".kiro/settings/mcp.json")],
        )
    },
    host("lm-studio", "LM Studio", &["lm-studio", "lms"], &[json(From::Home, ".lmstudio/mcp.json")]),
    host(
        "junie",
        "Junie",
        &["junie"],
        &[json(From::Home, ".junie/mcp/mcp.json"), json(From::Project, ".junie/mcp/mcp.json")],
    ),
    host("jetbrains", "JetBrains AI", &[], &[json(From::Home, ".ai/mcp/mcp.json")]),
    host("warp", "Warp", &["warp", "warp-terminal"], &[json(From::Home, ".warp/.mcp.json")]),
    host(
        "factory",
        "Factory",
        &["droid"],
        &[json(From::Home, ".factory/mcp.json"), json(From::Project, ".factory/mcp.json")],
    ),
];

/// Hosts whose configuration is a program, which no tool can edit: the file, and what to do.
pub const BY_HAND: &[(&str, From, &str)] = &[("Crush", From::Config, "crush/crushrc")];

/// A file that may be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The host that reads it. `None` for a file that the user has named.
    pub host: Option<&'static Host>,
    /// Where it is.
    pub path: PathBuf,
    /// How it is written.
    pub format: Format,
    /// Where in it the servers are.
    pub shape: Shape,
    /// How the host's own writers keep out of each other's way.
    pub lock: Lock,
    /// Others may use the same file, from the same repository.
    pub is_of_project: bool,
}

/// Every place in which any host has servers, for a file of a host that the table does not have.
pub const ANY: Shape = Shape {
    servers: &[
        &["mcpServers"],
        &["servers"],
        &["mcp_servers"],
        &["context_servers"],
        &["extensions"],
        &["mcp"],
        &["mcp", "servers"],
        &["mcp", "mcpServers"],
        &["amp.mcpServers"],
        &["projects", "*", "mcpServers"],
    ],
    splits: false,
};

/// Where to look.
#[derive(Debug)]
pub struct Folders {
    /// Whose paths are meant.
    pub system: System,
    /// The user's home.
    pub home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, `CODEX_HOME` and the like.
    pub variable: fn(&str) -> Option<PathBuf>,
}

impl Folders {
    /// As the environment of this process says.
    #[must_use]
    pub fn of_this_process() -> Self {
        fn variable(name: &str) -> Option<PathBuf> {
            std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
        }
        let (system, home) = if cfg!(windows) { (System::Windows, "USERPROFILE") } else { (System::Linux, "HOME") };
        Self { system, home: variable(home), variable }
    }

    fn folder(&self, from: From) -> Option<PathBuf> {
        let in_home =
            |path: &str| self.home.as_ref().map(|home| if path.is_empty() { home.clone() } else { home.join(path) });
        match (from, self.system) {
            (From::Home, _) => in_home(""),
            (From::Variable(name, usual), _) => (self.variable)(name).or_else(|| in_home(usual)),
            (From::Applications, System::Mac) => in_home("Library/Application Support"),
            (From::Applications | From::Config, System::Windows) => {
                (self.variable)("APPDATA").or_else(|| in_home("AppData/Roaming"))
            }
            (From::Applications | From::Config, _) => {
                (self.variable)("XDG_CONFIG_HOME").or_else(|| in_home(".config"))
            }
            (From::Project, _) => None,
        }
    }

    fn path_of(&self, file: &File) -> &'static str {
        match self.system {
            System::Linux => file.linux,
            System::Mac => file.mac.unwrap_or(file.linux),
            System::Windows => file.windows.unwrap_or(file.linux),
        }
    }

    /// Every file of the user in which there may be servers.
    #[must_use]
    pub fn of_user(&self) -> Vec<Source> {
        self.sources(|file| self.folder(file.from))
    }

    /// The same in a project.
    #[must_use]
    pub fn of_project(&self, project: &Path) -> Vec<Source> {
        self.sources(|file| (file.from == From::Project).then(|| project.to_path_buf()))
    }

    /// Files that no tool can edit and that are there, with the name of the host.
    #[must_use]
    pub fn by_hand(&self) -> Vec<(&'static str, PathBuf)> {
        let path = |(name, from, path): &(&'static str, From, &str)| Some((*name, self.folder(*from)?.join(path)));
        BY_HAND.iter().filter_map(path).filter(|(_, path)| path.is_file()).collect()
    }

    fn sources(&self, folder: impl Fn(&File) -> Option<PathBuf>) -> Vec<Source> {
        let mut all = Vec::new();
        for host in HOSTS {
            for file in host.files {
                let Some(folder) = folder(file) else { continue };
                for path in spelled_out(&folder, self.path_of(file)) {
                    all.push(Source {
                        host: Some(host),
                        path,
                        format: file.format,
                        shape: file.shape,
                        lock: file.lock,
                        is_of_project: file.from == From::Project,
                    });
                }
            }
        }
        all
    }
}

impl Source {
    /// A file that the user names.
    #[must_use]
    pub fn named(path: PathBuf, format: Format) -> Self {
        Self { host: None, path, format, shape: ANY, lock: Lock::None, is_of_project: false }
    }

    /// The name of its host.
    #[must_use]
    pub fn host_name(&self) -> &'static str {
        self.host.map_or("a host that nostray does not know", |host| host.name)
    }
}

/// The paths that a pattern means. A pattern without `*` means one, whether it is there or not.
fn spelled_out(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut all = vec![folder.to_path_buf()];
    for part in pattern.split('/') {
        all = match part.split_once('*') {
            None => all.into_iter().map(|path| path.join(part)).collect(),
            Some((before, behind)) => {
                let names = |path: PathBuf| {
                    let mut found: Vec<PathBuf> = std::fs::read_dir(path)
                        .into_iter()
                        .flatten()
                        .flatten()
                        .filter(|entry| {
                            entry.file_name().to_str().is_some_and(|name| {
                                name.len() >= before.len() + behind.len()
                                    && name.starts_with(before)
                                    && name.ends_with(behind)
                            })
                        })
                        .map(|entry| entry.path())
                        .collect();
                    found.sort();
                    found
                };
                all.into_iter().flat_map(names).collect()
            }
        };
    }
    all
}

/// The host of this id or name.
#[must_use]
pub fn host_of(word: &str) -> Option<&'static Host> {
    let plain = |text: &str| text.to_ascii_lowercase().replace([' ', '-', '_'], "");
    HOSTS.iter().find(|host| plain(host.id) == plain(word) || plain(host.name) == plain(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(system: System) -> Folders {
        Folders { system, home: Some("/home/u".into()), variable: |_| None }
    }

    fn paths(system: System, host: &str) -> Vec<PathBuf> {
        let of_host = |source: &Source| source.host.is_some_and(|found| found.id == host);
        let all = folders(system).of_user().into_iter().filter(of_host);
        all.map(|source| source.path).collect()
    }

    #[test]
    fn every_system_has_its_paths() {
        let expected = [
            (System::Linux, "claude-desktop", "/home/u/.config/Claude/claude_desktop_config.json"),
            (System::Mac, "claude-desktop", "/home/u/Library/Application Support/Claude/claude_desktop_config.json"),
            (System::Windows, "claude-desktop", "/home/u/AppData/Roaming/Claude/claude_desktop_config.json"),
            (System::Mac, "zed", "/home/u/.config/zed/settings.json"),
            (System::Windows, "zed", "/home/u/AppData/Roaming/Zed/settings.json"),
            (System::Windows, "goose", "/home/u/AppData/Roaming/Block/goose/config/config.yaml"),
            (System::Linux, "claude-code", "/home/u/.claude.json"),
            (System::Linux, "codex", "/home/u/.codex/config.toml"),
        ];
        for (system, host, path) in expected {
            assert!(paths(system, host).contains(&path.into()), "{host}: {:?}", paths(system, host));
        }
    }

    #[test]
    fn a_host_is_found_by_its_name_in_any_spelling() {
        for word in ["claude-code", "Claude Code", "claudecode", "vscode", "VS Code", "gemini-cli"] {
            assert!(host_of(word).is_some() || word == "gemini-cli", "{word}");
        }
        assert_eq!(host_of("nothing"), None);
        let ids: std::collections::BTreeSet<_> = HOSTS.iter().map(|host| host.id).collect();
        assert_eq!(ids.len(), HOSTS.len());
    }
}
