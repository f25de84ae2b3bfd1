//! A short name for a child, made of its command: `server-everything` for `npx -y @scope/server-everything@1.2`. People recognise it in a
//! list, and nothing is decided by it.

use crate::record::Record;

/// Programs that only start another one, and are not what the child is called.
const LAUNCHERS: [&str; 18] = [
    "npx", "bunx", "pnpx", "uvx", "pipx", "npm", "pnpm", "yarn", "bun", "uv", "deno", "env", "nice", "timeout",
    "sudo", "exec", "stdbuf", "nohup",
];
/// Words of launchers that stand before the package.
const LAUNCHER_COMMANDS: [&str; 7] = ["run", "exec", "dlx", "x", "tool", "start", "--"];
/// Options of launchers whose value is the next word.
const LAUNCHER_OPTIONS_WITH_VALUE: [&str; 14] = [
    "-p",
    "--package",
    "--from",
    "--with",
    "--python",
    "--directory",
    "--project",
    "--index-url",
    "--prefix",
    "-C",
    "--cwd",
    "--env-file",
    "--spec",
    "--with-requirements",
];
const INTERPRETERS: [&str; 10] =
    ["node", "python", "ruby", "perl", "php", "java", "tsx", "ts-node", "pypy", "electron"];
const SHELLS: [&str; 6] = ["sh", "bash", "zsh", "dash", "fish", "ksh"];
const CONTAINER_PROGRAMS: [&str; 2] = ["docker", "podman"];
/// Options of `docker run` without a value; all others have one.
const CONTAINER_FLAGS: [&str; 12] = [
    "--rm",
    "-i",
    "-t",
    "-it",
    "-ti",
    "-d",
    "--init",
    "--interactive",
    "--tty",
    "--privileged",
    "--read-only",
    "--detach",
];
/// Names that say nothing of what a program is; the folder above says more.
const GENERIC: [&str; 16] = [
    "index", "main", "server", "app", "cli", "run", "start", "mcp", "dist", "build", "src", "bin", "lib", "out",
    "__main__", "stdio",
];
/// The longest name, in characters.
const MAX_NAME: usize = 40;

impl Record {
    /// What people call this child: its key, its slot, its label `name`, or a short name made of its command.
    #[must_use]
    pub fn name(&self) -> String {
        let key = self.shared.as_ref().and_then(|shared| shared.key.as_deref());
        // A child that is shared because it holds a slot has the slot in its key.
        let key = key.map(|key| key.strip_prefix("slot:").unwrap_or(key).to_owned());
        let given = key.or_else(|| self.slot.clone()).or_else(|| self.labels.get("name").cloned());
        given.unwrap_or_else(|| short_name(&self.command))
    }
}

/// A short name for this command.
#[must_use]
pub fn short_name<S: AsRef<str>>(command: &[S]) -> String {
    let words: Vec<&str> = command.iter().map(AsRef::as_ref).collect();
    let name = named(&words, 0);
    if name.chars().count() > MAX_NAME { name.chars().take(MAX_NAME - 1).chain(['…']).collect() } else { name }
}

/// A launcher may start a launcher; `depth` bounds that.
fn named(words: &[&str], depth: usize) -> String {
    let Some((first, rest)) = words.split_first() else { return String::new() };
    let program = program_name(first);
    let found = match program {
        _ if depth > 4 => None,
        launcher if LAUNCHERS.contains(&launcher) => behind_launcher(rest).map(|rest| named_package(rest, depth)),
        shell if SHELLS.contains(&shell) => of_shell(rest, depth),
        container if CONTAINER_PROGRAMS.contains(&container) => image(rest),
        interpreter if is_interpreter(interpreter) => of_script(rest),
        _ => None,
    };
    found.filter(|name| !name.is_empty()).unwrap_or_else(|| of_path(first))
}

/// Whether a program of this name says nothing of what it runs.
pub(crate) fn runs_other_programs(program: &str) -> bool {
    LAUNCHERS.contains(&program) || is_interpreter(program)
}

fn is_interpreter(program: &str) -> bool {
    let without_version = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    INTERPRETERS.contains(&program) || INTERPRETERS.contains(&without_version)
}

/// The words from the package or program on that a launcher starts.
fn behind_launcher<'a, 'b>(rest: &'a [&'b str]) -> Option<&'a [&'b str]> {
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        let is_assignment = !word.starts_with('-') && word.split_once('=').is_some_and(|(name, _)| is_variable(name));
        let is_duration = word.starts_with(|c: char| c.is_ascii_digit()) && word.len() < 6;
        if LAUNCHER_OPTIONS_WITH_VALUE.contains(word) {
            at += 2;
        } else if word.starts_with('-') || LAUNCHER_COMMANDS.contains(word) || is_assignment || is_duration {
            at += 1;
        } else {
            return rest.get(at..);
        }
    }
    None
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// What follows a launcher is a package, a script, or another program with its own words.
fn named_package(words: &[&str], depth: usize) -> String {
    let first = words.first().copied().unwrap_or_default();
    let program = program_name(first);
    let starts_another = LAUNCHERS.contains(&program)
        || SHELLS.contains(&program)
        || CONTAINER_PROGRAMS.contains(&program)
        || is_interpreter(program);
    if starts_another && words.len() > 1 {
        return named(words, depth + 1);
    }
    let is_path = first.starts_with(['/', '.', '~']);
    if is_path { of_path(first) } else { package(first) }
}

/// `@scope/name@1.2`, `name[extra]==1.2`, `git+https://host/owner/name.git@branch`: the name alone.
fn package(text: &str) -> String {
    let without_fragment = text.split('#').next().unwrap_or(text);
    let last = without_fragment.rsplit('/').next().unwrap_or(without_fragment);
    let name = last.split(['@', '[', '=', '<', '>', '~', '!', ':']).find(|part| !part.is_empty()).unwrap_or(last);
    without_ending(name).to_owned()
}

/// `python -m module`, `node --flag path/to/script.js`.
fn of_script(rest: &[&str]) -> Option<String> {
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match *word {
            "-m" => return words.next().map(|module| generic_or_not(&module.split('.').collect::<Vec<_>>())),
            "-c" | "-e" | "--eval" | "-p" | "--print" => return None,
            "-r" | "--require" | "--import" | "--loader" | "-X" | "-W" | "-I" => drop(words.next()),
            "-jar" => return words.next().map(|path| of_path(path)),
            word if word.starts_with('-') => {}
            word => return Some(of_path(word)),
        }
    }
    None
}

/// `sh -c 'exec server --flag'`, `sh script.sh`.
fn of_shell(rest: &[&str], depth: usize) -> Option<String> {
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        if let Some(flags) = word.strip_prefix('-') {
            if !flags.starts_with('-') && flags.contains('c') {
                let script = words.next()?;
                if script.contains(|c: char| ";&|(){}<>`\n".contains(c)) {
                    return None; // more than one command, which has no name
                }
                let script: Vec<&str> = script.split_whitespace().collect();
                let is_assignment = |word: &&&str| word.split_once('=').is_some_and(|(name, _)| is_variable(name));
                let skipped = script.iter().take_while(is_assignment).count();
                return Some(named(script.get(skipped..)?, depth + 1));
            }
        } else {
            return Some(of_path(word));
        }
    }
    None
}

/// `docker run --rm -i -e KEY mcp/fetch:latest`: `fetch`.
fn image(rest: &[&str]) -> Option<String> {
    let mut words = rest.iter().skip_while(|word| **word != "run").skip(1);
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            return Some(package(word));
        }
        if !CONTAINER_FLAGS.contains(word) && !word.contains('=') {
            words.next();
        }
    }
    None
}

/// The file's name without its ending, or that of a folder above if the file's says nothing.
fn of_path(path: &str) -> String {
    generic_or_not(
        &path.split(['/', '\\']).filter(|part| !part.is_empty() && *part != "." && *part != "..").collect::<Vec<_>>(),
    )
}

fn generic_or_not(parts: &[&str]) -> String {
    let stems: Vec<&str> = parts.iter().map(|part| without_ending(part)).collect();
    let telling = stems.iter().rev().take(4).find(|stem| !GENERIC.contains(stem) && !stem.starts_with('@'));
    (*telling.or(stems.last()).unwrap_or(&"")).to_owned()
}

fn program_name(path: &str) -> &str {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    without_ending(name)
}

fn without_ending(name: &str) -> &str {
    const ENDINGS: [&str; 13] =
        [".git", ".js", ".mjs", ".cjs", ".ts", ".py", ".rb", ".sh", ".exe", ".cmd", ".bat", ".jar", ".asar"];
    ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).filter(|stem| !stem.is_empty()).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::short_name;

    #[test]
    fn a_command_is_called_by_what_it_starts() {
        for (command, name) in [
            ("npx -y @scope/server-everything", "server-everything"),
            ("npx -y @scope/server-everything@1.2.3 stdio", "server-everything"),
            ("npx --package=@scope/tools tool-server --flag", "tool-server"),
            ("npx -p @scope/tools tool-server", "tool-server"),
            ("/usr/bin/npx -y some-server@latest", "some-server"),
            ("uvx mcp-server-time --local-timezone=Europe/Berlin", "mcp-server-time"),
            ("uvx --from git+https://host/owner/repo.git@main memory-bridge", "memory-bridge"),
            ("uvx some-server[extra]==1.0", "some-server"),
            ("uv run --directory /srv/weather weather.py", "weather"),
            ("uv --directory /srv/weather run python -m weather.server", "weather"),
            ("pipx run mcp-server-git", "mcp-server-git"),
            ("npm exec -- @scope/server-memory", "server-memory"),
            ("bunx some-server", "some-server"),
            ("node /home/user/memory-bridge/dist/index.js", "memory-bridge"),
            ("node --max-old-space-size=512 server.mjs", "server"),
            ("python3.11 -m mcp_server_fetch", "mcp_server_fetch"),
            ("python -u /srv/bridge/main.py --port 1", "bridge"),
            ("python3 -c pass", "python3"),
            ("docker run --rm -i -e API_KEY mcp/fetch:latest", "fetch"),
            ("docker run -i --rm --mount type=bind,src=/a,dst=/b mcp/filesystem /b", "filesystem"),
            ("env KEY=value nice -n10 node build/cli.js", "cli"),
            ("/opt/tools/bin/some-server", "some-server"),
            ("./server", "server"),
            ("sleep 600", "sleep"),
            ("npx", "npx"),
            ("npx -y", "npx"),
        ] {
            let words: Vec<&str> = command.split(' ').collect();
            assert_eq!(short_name(&words), name, "{command}");
        }
        assert_eq!(short_name(&["sh", "-c", "exec some-server --flag"]), "some-server");
        assert_eq!(short_name(&["sh", "-c", "while true; do :; done"]), "sh");
        assert_eq!(short_name(&["bash", "-lc", "API_KEY=x npx -y @scope/server"]), "server");
        assert_eq!(short_name(&["sh", "-c", "(a; b)"]), "sh");
        assert_eq!(short_name::<&str>(&[]), "");
        assert_eq!(short_name(&["x".repeat(100)]).chars().count(), 40);
    }
}
