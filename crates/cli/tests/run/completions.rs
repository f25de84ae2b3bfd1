//! Completions in a real bash, zsh and fish: commands, options, what runs under nostray, and the command behind `run`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use badchild::{Folder, comes_true, wait_until};
use testkit::nostray;
use testkit::stage::Stage;

/// Whether a shell is there. In CI it must be.
fn has(shell: &str) -> bool {
    let is_there = Command::new(shell).arg("-c").arg("true").stdin(Stdio::null()).status().is_ok();
    assert!(is_there || std::env::var_os("CI").is_none(), "{shell} is missing, and CI installs it");
    if !is_there {
        writeln!(std::io::stderr(), "SKIPPED: there is no {shell}").ok();
    }
    is_there
}

/// A stage with a shared child, a slot and sessions, and a folder with `nostray` and `npx` in it.
struct Scenery {
    stage: Stage,
    folder: Folder,
}

impl Scenery {
    fn new() -> Self {
        let folder = Folder::new("completions");
        std::os::unix::fs::symlink(nostray(), folder.path().join("nostray")).expect("linked");
        std::os::unix::fs::symlink("/bin/true", folder.path().join("npx-for-this-test")).expect("linked");
        Self { stage: Stage::new(), folder }
    }

    /// Runs a shell with this program on its stdin.
    fn run(&self, shell: &str, words: &[&str], script: &str) -> String {
        let mut command = self.stage.scene.command(Path::new(shell));
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.folder.path().display());
        command.args(words).arg("-c").arg(script).env("PATH", path).env("HOME", self.folder.path());
        let output: Output = command.stdin(Stdio::null()).output().expect("run the shell");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn script(&self, shell: &str) -> String {
        let file = self.folder.path().join(format!("script.{shell}"));
        let script = self.stage.nostray(&["completions", shell]).stdout;
        std::fs::write(&file, script).expect("written");
        file.display().to_string()
    }

    /// What a shell offers for a line, a word a line.
    fn offers(&self, shell: &str, line: &str) -> Vec<String> {
        let script = self.script(shell);
        let text = match shell {
            "bash" => {
                let ask = r#"
                    source "$SCRIPT"
                    read -ra COMP_WORDS <<<"$LINE"
                    [[ $LINE == *' ' ]] && COMP_WORDS+=('')
                    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$LINE COMP_POINT=${#LINE}
                    _nostray_all nostray "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
                    printf '%s\n' "${COMPREPLY[@]}""#;
                self.run("bash", &["--norc"], &format!("SCRIPT='{script}' LINE='{line}'\n{ask}"))
            }
            "fish" => self.run("fish", &["--no-config"], &format!("source '{script}'; complete -C '{line}'")),
            _ => self.zsh(line),
        };
        text.lines().map(|line| line.split(['\t', ' ']).next().unwrap_or_default().to_owned()).collect()
    }

    /// zsh completes only on a terminal of its own: a second zsh types the line and a tab there, and lists what is offered.
    fn zsh(&self, line: &str) -> String {
        std::fs::copy(self.script("zsh"), self.folder.path().join("_nostray")).expect("copied");
        let ask = r#"
            zmodload zsh/zpty
            zpty -b shell "PS1= PROMPT= zsh -f -i"
            zpty -w shell "PS1=; fpath=('FOLDER' \$fpath); autoload -Uz compinit; compinit -u -D; zstyle ':completion:*' list-prompt ''; LISTMAX=10000; setopt no_always_last_prompt; unsetopt beep; echo READY-\$((1+1))"
            local seen= part
            integer left=600
            until [[ $seen == *READY-2* ]] || (( left-- == 0 )); do zpty -r -t shell part && seen+=$part || sleep 0.05; done
            zpty -w -n shell $'LINE\t\t'
            seen= left=60
            integer quiet=0
            while (( quiet < 12 && left-- > 0 )); do
                if zpty -r -t shell part; then seen+=$part; quiet=0; else (( quiet++ )); sleep 0.1; fi
            done
            zpty -d shell
            print -r -- "$seen""#;
        let ask = ask.replace("FOLDER", &self.folder.path().display().to_string()).replace("LINE", line);
        let text = self.run("zsh", &["-f"], &ask);
        text.split_whitespace().map(|word| format!("{word}\n")).collect()
    }
}

const SHELLS: [&str; 3] = ["bash", "fish", "zsh"];

#[test]
fn shells_complete_commands_options_and_what_runs() {
    let scenery = Scenery::new();
    let mut shared = scenery.stage.shared(&["--key", "key-of-memory", "--session", "session-of-chat"], &[]);
    let mut slotted = scenery.stage.start(&["--slot", "slot-of-db", "--respawn"], &[]);
    slotted.initialize();
    wait_until("both are on record", || scenery.stage.states().len() == 2);
    for shell in SHELLS.into_iter().filter(|shell| has(shell)) {
        for (line, expected) in [
            ("nostray st", "stop"),
            ("nostray run --resp", "--respawn"),
            ("nostray stop key-", "key-of-memory"),
            ("nostray restart session-", "session-of-chat"),
            ("nostray log slot-", "slot-of-db"),
            ("nostray ps --session session-", "session-of-chat"),
            ("nostray slot show slot-", "slot-of-db"),
            ("nostray share --key key-", "key-of-memory"),
            ("nostray run npx-for", "npx-for-this-test"),
            ("nostray run --respawn --session x -- npx-for", "npx-for-this-test"),
            ("nostray run --eof-grace 2s npx-for", "npx-for-this-test"),
        ] {
            let mut offered = Vec::new();
            // A loaded machine may be too slow for the terminal of zsh once.
            let is_offered = comes_true(badchild::PATIENCE, &mut || {
                offered = scenery.offers(shell, line);
                offered.iter().any(|word| word.contains(expected))
            });
            assert!(is_offered, "{shell}: '{line}' does not offer {expected}, but {offered:?}");
        }
    }
    let id = String::from_utf8(scenery.stage.nostray(&["ps", "-q"]).stdout).expect("text");
    let id = id.lines().next().expect("an id");
    for shell in ["bash", "fish"].into_iter().filter(|shell| has(shell)) {
        let offered = scenery.offers(shell, &format!("nostray stop {}", &id[..3]));
        assert!(offered.iter().any(|word| word == id), "{shell}: {offered:?}");
        let offered = scenery.offers(shell, "nostray run npx-for-this-test --resp");
        assert!(
            !offered.iter().any(|word| word == "--respawn"),
            "{shell}: behind the command nothing is ours: {offered:?}"
        );
    }
    for caller in [&mut shared, &mut slotted] {
        caller.close();
        caller.code();
    }
    scenery.stage.scene.expect_empty();
}
