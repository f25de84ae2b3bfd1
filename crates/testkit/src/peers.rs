//! Installs real MCP clients and servers, and what drives a browser, in pinned versions, below the target folder. The first
//! test that needs them installs them.
//!
//! Where Python, Node or the browser is missing, the tests that need it are skipped with a message; with `CI=true` they fail.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// A set of peers that is installed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kit {
    /// The Python SDK 1.x.
    Python1,
    /// The Python SDK 2.x.
    Python2,
    /// The TypeScript SDKs 1.x and 2.x, server-everything, and the conformance suite.
    Node,
    /// The Rust SDK.
    Rmcp,
    /// What drives the Chromium of this machine.
    Browser,
    /// What starts programs of packages: uv, pipx and pnpm. npx comes with Node.
    Launchers,
}

impl Kit {
    /// Installs the kit if necessary, and returns its folder. `None` where the machine lacks a tool and the tests are
    /// skipped.
    ///
    /// # Panics If the installation fails, or if a tool is missing and `CI=true`.
    pub fn folder(self) -> Option<PathBuf> {
        if let Err(missing) = self.has_tools() {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{missing}, and CI=true");
            say(&format!("SKIPPED a test with real peers: {missing}"));
            return None;
        }
        let all = target_folder().join("peers");
        let folder = all.join(self.name());
        fs::create_dir_all(&folder).expect("make the folder");
        // Another test, or another run of the tests, holds the lock while it installs.
        let lock = File::create(all.join(format!("{}.lock", self.name()))).expect("make the lock");
        lock.lock().expect("wait for the lock");
        let (stamp, wanted) = (all.join(format!("{}.stamp", self.name())), self.pins());
        if fs::read(&stamp).ok().as_deref() != Some(wanted.as_slice()) {
            let begin = Instant::now();
            say(&format!("installing {} into {}", self.name(), folder.display()));
            self.install(&folder);
            fs::write(&stamp, wanted).expect("write the stamp");
            say(&format!("installed {} in {:.0?}", self.name(), begin.elapsed()));
        }
        self.put_programs(&folder);
        Some(folder)
    }

    /// A command of the kit: words that name its files become paths, other words stay.
    pub fn words(self, program: &str, rest: &[&str]) -> Option<Vec<PathBuf>> {
        let folder = self.folder()?;
        let found = |word: &str| Some(folder.join(word)).filter(|file| file.is_file()).unwrap_or_else(|| word.into());
        Some([program].iter().chain(rest).filter(|word| !word.is_empty()).map(|word| found(word)).collect())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Python1 => "python1",
            Self::Python2 => "python2",
            Self::Node => "node",
            Self::Rmcp => "rmcp",
            Self::Browser => "browser",
            Self::Launchers => "launchers",
        }
    }

    /// The missing tool, if any.
    fn has_tools(self) -> Result<(), String> {
        let works = |program: &str, words: &[&str]| {
            let mut command = Command::new(program);
            command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let python = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";
        let node = "process.exit(Number(process.versions.node.split('.')[0]) < 20 ? 1 : 0)";
        match self {
            Self::Python1 | Self::Python2 | Self::Launchers if !works("python3", &["-c", python]) => {
                Err("there is no Python 3.10 or later with venv and pip".to_owned())
            }
            Self::Node | Self::Browser | Self::Launchers if !works("node", &["-e", node]) => {
                Err("there is no Node 20 or later".to_owned())
            }
            Self::Node | Self::Browser | Self::Launchers if !works("npm", &["--version"]) => {
                Err("there is no npm".to_owned())
            }
            Self::Browser if !works("chromium", &["--version"]) => Err("there is no chromium".to_owned()),
            _ => Ok(()),
        }
    }

    /// The files that name every version.
    fn pin_files(self) -> impl Iterator<Item = PathBuf> {
        let files: &[&str] = match self {
            Self::Python1 => &["python/requirements1.txt"],
            Self::Python2 => &["python/requirements2.txt"],
            Self::Node => &["node/package-lock.json"],
            Self::Rmcp => &["rmcp/Cargo.lock"],
            Self::Browser => &["browser/package-lock.json"],
            Self::Launchers => &["launchers/requirements.txt", "launchers/package-lock.json"],
        };
        files.iter().map(|file| sources().join(file))
    }

    fn pins(self) -> Vec<u8> {
        self.pin_files().flat_map(|file| fs::read(file).expect("read the pins")).collect()
    }

    fn install(self, folder: &Path) {
        // Cargo itself knows what to rebuild.
        if self == Self::Rmcp {
            return self.put_programs(folder);
        }
        for pins in self.pin_files() {
            if pins.extension().is_some_and(|extension| extension == "txt") {
                run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder));
                let mut pip = Command::new(folder.join("bin/python"));
                pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
                run(pip.arg("--requirement").arg(pins));
            } else {
                for file in ["package.json", "package-lock.json", ".npmrc"] {
                    fs::copy(pins.with_file_name(file), folder.join(file)).expect("copy");
                }
                run(Command::new("npm").args(["ci", "--silent", "--no-audit", "--no-fund"]).current_dir(folder));
            }
        }
    }

    /// Copies the programs next to the packages that they import.
    fn put_programs(self, folder: &Path) {
        let (from, ending) = match self {
            Self::Python1 | Self::Python2 => ("python", ".py"),
            Self::Node => ("node", ".mjs"),
            Self::Browser => ("browser", ".mjs"),
            Self::Launchers => return,
            Self::Rmcp => {
                let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
                cargo.args(["build", "--quiet", "--locked", "--target-dir"]).arg(folder);
                // For this machine, whatever the tests are built for.
                for setting in ["CARGO_BUILD_TARGET", "CARGO_ENCODED_RUSTFLAGS"] {
                    cargo.env_remove(setting);
                }
                return run(cargo.current_dir(sources().join("rmcp")));
            }
        };
        for entry in fs::read_dir(sources().join(from)).expect("list").flatten() {
            let (name, text) = (entry.file_name(), fs::read(entry.path()));
            let Some(text) = text.ok().filter(|_| name.to_string_lossy().ends_with(ending)) else { continue };
            // Write only if the file has changed: another test may be reading it.
            if fs::read(folder.join(&name)).ok().as_deref() != Some(text.as_slice()) {
                fs::write(folder.join(&name), text).expect("write");
            }
        }
    }
}

/// The folder with the sources of the peers.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers").canonicalize().expect("the folder of the peers")
}

/// The target folder into which this test was built.
fn target_folder() -> PathBuf {
    let test = std::env::current_exe().expect("own path");
    test.ancestors().nth(3).expect("target/PROFILE/deps/test").to_path_buf()
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{command:?} ended with {}:\n{said}", output.status);
}

/// Writes to the real stderr, also where the test runner captures output.
fn say(what: &str) {
    // A closed stderr changes nothing.
    writeln!(std::io::stderr(), "[peers] {what}").ok();
}
