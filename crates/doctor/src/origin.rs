//! Where a program came from: which package, or which tool, put its file where it is. Files tell, and Debian's list of files is asked
//! for with its own program; no package manager that may use the network is started.

use std::fs;
use std::path::{Path, PathBuf};

use nostray_sys::files::real_path;

use crate::packages;

/// Where a program came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A Debian package.
    Debian,
    /// An npm package. In a project it belongs to the project.
    Npm {
        /// For all projects (`npm install -g`).
        global: bool,
    },
    /// `uv tool install`.
    UvTool,
    /// `pipx install`.
    Pipx,
    /// A Python environment.
    Venv(PathBuf),
    /// `pip install`, without an environment.
    Pip,
    /// The cache of a command that fetches a program to run it once, like `npx`.
    Cache(&'static str),
    /// `cargo install`.
    Cargo,
    /// The `install.sh` of the archive, below this folder.
    Archive(PathBuf),
    /// A build folder of Cargo's.
    Build(PathBuf),
    /// Nothing shows it.
    Unknown,
}

impl Origin {
    /// That of the program with this path, after links.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let names: Vec<&str> = path.iter().filter_map(|name| name.to_str()).collect();
        let has = |name: &str| names.contains(&name);
        let follow = |first: &str, second: &str| names.windows(2).any(|pair| pair == [first, second]);
        if has("_npx") {
            return Self::Cache("npx");
        }
        if follow("pnpm", "dlx") {
            return Self::Cache("pnpm dlx");
        }
        if names.iter().any(|name| name.starts_with("bunx-")) {
            return Self::Cache("bunx");
        }
        if names.iter().any(|name| name.starts_with("archive-v") || name.starts_with("environments-v"))
            && has(packages::PROGRAMS)
        {
            return Self::Cache("uvx");
        }
        if follow(".cache", "pipx") {
            return Self::Cache("pipx run");
        }
        if has("node_modules") {
            let above = path.ancestors().filter(|above| above.ends_with("node_modules")).last();
            let project = above.and_then(Path::parent);
            // pnpm, yarn and bun keep a project of their own, called so, for programs that are for all projects.
            let global = has("global") || project.is_none_or(|project| !project.join("package.json").is_file());
            return Self::Npm { global };
        }
        if packages::modules_of_script(path).is_some() {
            return Self::Npm { global: true };
        }
        let (Some(folder), Some(prefix)) = (path.parent(), path.parent().and_then(Path::parent)) else {
            return Self::Unknown;
        };
        if packages::is_of_system(path) {
            return Self::Debian;
        }
        if folder.ends_with("bin") && is_in_receipt(prefix) {
            return Self::Archive(prefix.to_owned());
        }
        if folder.ends_with(packages::PROGRAMS) && is_of_wheel(prefix) {
            return Self::of_wheel(prefix);
        }
        if folder.ends_with("bin") && lists(&prefix.join(".crates.toml"), "\"nostray ") {
            return Self::Cargo;
        }
        let build = path.ancestors().find(|above| above.join(".rustc_info.json").is_file());
        build.map_or(Self::Unknown, |build| Self::Build(build.to_owned()))
    }

    /// That of the program that runs.
    #[must_use]
    pub fn of_this_program() -> Self {
        std::env::current_exe().and_then(|path| real_path(&path)).map_or(Self::Unknown, |path| Self::of(&path))
    }

    fn of_wheel(prefix: &Path) -> Self {
        if prefix.join("uv-receipt.toml").is_file() {
            Self::UvTool
        } else if prefix.join("pipx_metadata.json").is_file() {
            Self::Pipx
        } else if prefix.join("pyvenv.cfg").is_file() {
            Self::Venv(prefix.to_owned())
        } else {
            Self::Pip
        }
    }

    /// One word for it, for programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Debian => "deb",
            Self::Npm { .. } => "npm",
            Self::UvTool => "uv-tool",
            Self::Pipx => "pipx",
            Self::Venv(_) => "venv",
            Self::Pip => "pip",
            Self::Cache(_) => "cache",
            Self::Cargo => "cargo",
            Self::Archive(_) => "archive",
            Self::Build(_) => "build",
            Self::Unknown => "unknown",
        }
    }

    /// For people.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::Debian => "from the Debian package nostray".to_owned(),
            Self::Npm { global: true } => "installed by npm".to_owned(),
            Self::Npm { global: false } => "installed by npm in a project".to_owned(),
            Self::UvTool => "installed by uv tool".to_owned(),
            Self::Pipx => "installed by pipx".to_owned(),
            Self::Venv(folder) => format!("in the Python environment {}", folder.display()),
            Self::Pip => "installed by pip".to_owned(),
            Self::Cache(tool) => format!("in the cache of {tool}"),
            Self::Cargo => "installed by cargo".to_owned(),
            Self::Archive(prefix) => format!("installed by install.sh below {}", prefix.display()),
            Self::Build(folder) => format!("in the build folder {}", folder.display()),
            Self::Unknown => "it is not known how it was installed".to_owned(),
        }
    }

    /// The command that takes it away, where there is one.
    #[must_use]
    pub fn removal(&self) -> Option<String> {
        Some(match self {
            Self::Debian => "sudo apt-get remove nostray".to_owned(),
            Self::Npm { global: true } => "npm uninstall -g nostray".to_owned(),
            Self::Npm { global: false } => "npm uninstall nostray".to_owned(),
            Self::UvTool => "uv tool uninstall nostray".to_owned(),
            Self::Pipx => "pipx uninstall nostray".to_owned(),
            Self::Venv(folder) => {
                format!("{} -m pip uninstall nostray", folder.join(packages::PYTHON).display())
            }
            Self::Pip => "python3 -m pip uninstall nostray".to_owned(),
            Self::Cargo => "cargo uninstall nostray".to_owned(),
            Self::Archive(prefix) => format!("{}/share/nostray/uninstall.sh", prefix.display()),
            Self::Cache(_) | Self::Build(_) | Self::Unknown => return None,
        })
    }

    /// Why the program may be gone one day although no user has uninstalled it, and how to get one that stays.
    #[must_use]
    pub fn may_vanish(&self) -> Option<(String, &'static str)> {
        let (when, instead) = match self {
            Self::Cache("uvx") => ("when the cache is cleaned", "uv tool install nostray"),
            Self::Cache("pipx run") => ("after some days", "pipx install nostray"),
            Self::Cache(_) => ("when the cache is cleaned", "npm install -g nostray"),
            Self::Npm { global: false } => ("with the project's node_modules", "npm install -g nostray"),
            Self::Venv(_) => ("with that environment", "uv tool install nostray"),
            Self::Build(_) => ("by `cargo clean`", "cargo install --path crates/cli"),
            _ => return None,
        };
        Some((format!("it is {} and may vanish {when}", self.in_words().trim_start_matches("it is ")), instead))
    }
}

fn is_in_receipt(prefix: &Path) -> bool {
    lists(&prefix.join("share/nostray/receipt"), "bin/nostray")
}

/// Whether a wheel has put a program of this name into the prefix's folder for programs.
fn is_of_wheel(prefix: &Path) -> bool {
    let is_info = |entry: &fs::DirEntry| {
        entry.file_name().to_str().is_some_and(|name| name.starts_with("nostray-") && name.ends_with(".dist-info"))
    };
    let entries = |folder| fs::read_dir(folder).into_iter().flatten().flatten();
    let infos = packages::site_packages(prefix).into_iter().flat_map(entries).filter(is_info);
    infos.map(|info| info.path().join("RECORD")).any(|record| lists(&record, packages::IN_RECORD))
}

fn lists(file: &Path, what: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.contains(what))
}
