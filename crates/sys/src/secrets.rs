//! Keeping secrets out of records, journal and reports. The environment is never recorded, nor what is set of it on a command line. Of a
//! command's words, and of any other text, what follows a telling name is masked, and what looks like a key. In doubt it is masked: a
//! reader who misses a word asks the process, and a secret that was shown stays shown.

use std::ffi::OsStr;

#[cfg(any(target_os = "linux", windows))]
use crate::proc::{self, Stat};
#[cfg(any(target_os = "linux", windows))]
use crate::process::Pid;

/// What stands in the place of a secret.
const MASK: &str = "***";
/// Parts of the names of options, variables, headers and parameters whose values are secret.
const SECRET_PARTS: [&str; 11] =
    ["key", "token", "secret", "pass", "pwd", "auth", "credential", "bearer", "cookie", "private", "signature"];
/// Whole words of such names that are too short to be looked for inside of others: `--pat`, but not `--path`.
const SECRET_WORDS: [&str; 6] = ["pat", "pw", "psk", "jwt", "otp", "sig"];
/// Options of one letter that many programs have for a password or a key.
const SECRET_LETTERS: [&str; 2] = ["-p", "-k"];
/// Options whose value is `user:password`.
const USER_OPTIONS: [&str; 3] = ["-u", "--user", "--proxy-user"];
/// A shorter word is no key.
const SHORTEST_KEY: usize = 16;
/// How well-known kinds of keys begin.
const KEYS: [&str; 30] = [
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "eyJ",
    "npm_",
    "pypi-",
    "hf_",
    "gsk_",
    "SG.",
    "shpat_",
    "whsec_",
    "dop_v1_",
    "ntn_",
    "figd_",
];

/// The words of a command, with values that look like secrets masked.
#[must_use]
pub fn masked<S: AsRef<OsStr>>(command: &[S]) -> Vec<String> {
    let mut masker = Masker::default();
    command.iter().map(|word| masker.word(&word.as_ref().to_string_lossy())).collect()
}

/// The same for text in which such words may be.
#[must_use]
pub fn masked_text(text: &str) -> String {
    Masker::default().text(text)
}

/// How a person would recognise a process, without secrets: by its command line, or its name where that is hidden or empty.
#[cfg(any(target_os = "linux", windows))]
#[must_use]
pub fn describe(pid: Pid) -> String {
    let command: String = masked(&proc::command_of(pid)).join(" ").trim().chars().take(120).collect();
    if command.is_empty() { Stat::of(pid).map_or_else(String::new, |stat| stat.name) } else { command }
}

/// Goes from word to word, and remembers what the next one is.
#[derive(Debug, Default)]
struct Masker {
    next: Next,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Next {
    #[default]
    Anything,
    /// The value of something secret.
    Secret,
    /// The same, and all that follows up to a quote.
    Secrets,
    /// Of something secret, if an equals sign or a colon comes first.
    Assignment,
    /// `user:password`
    User,
}

impl Masker {
    fn word(&mut self, word: &str) -> String {
        let next = std::mem::take(&mut self.next);
        match next {
            Next::Assignment if matches!(word, "=" | ":" | "=>") => {
                self.next = Next::Secret;
                return word.to_owned();
            }
            Next::Secret | Next::Secrets if !word.starts_with('-') && !word.is_empty() => {
                // `Authorization: Bearer x`
                let is_kind = ["bearer", "basic", "token", "digest"].contains(&word.to_ascii_lowercase().as_str());
                self.next = if is_kind { Next::Secret } else { Next::Anything };
                return MASK.to_owned();
            }
            Next::User if word.contains(':') => return mask_password(word),
            _ => {}
        }
        self.next = what_follows(word);
        shown(word)
    }

    /// Text of many words: a script, an object of JSON, a message.
    fn text(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if self.next == Next::Secrets {
                let end = rest.find(['"', '\'', '`', '\n']).unwrap_or(rest.len());
                out.push_str(if end == 0 { "" } else { " ***" });
                rest = &rest[end..];
                self.next = Next::Anything;
            } else if is_quote(first) && self.next == Next::Secret && rest[1..].contains(first) {
                let end = rest[1..].find(first).map_or(rest.len(), |end| end + 2);
                out.extend([first.to_string().as_str(), MASK, first.to_string().as_str()]);
                rest = &rest[end..];
                self.next = Next::Anything;
            } else if is_quote(first) || is_delimiter(first) {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            } else {
                let end = rest.find(|c| is_quote(c) || is_delimiter(c)).unwrap_or(rest.len());
                out.push_str(&self.word(&rest[..end]));
                rest = &rest[end..];
            }
        }
        out
    }
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '`')
}

fn is_delimiter(c: char) -> bool {
    c.is_whitespace() || matches!(c, ';' | '|' | '&' | ',' | '(' | ')' | '{' | '}' | '[' | ']' | '<' | '>' | '\\')
}

/// What comes after a word.
fn what_follows(word: &str) -> Next {
    if let Some(name) = word.strip_suffix(['=', ':']).filter(|name| is_name(name) && is_secret_name(name)) {
        return if name.to_ascii_lowercase().contains("cookie") { Next::Secrets } else { Next::Secret };
    }
    if word.eq_ignore_ascii_case("bearer") {
        return Next::Secret;
    }
    match word.starts_with('-') {
        true if USER_OPTIONS.contains(&word) => Next::User,
        true if word.contains('=') || word.starts_with("--no-") => Next::Anything,
        true if SECRET_LETTERS.contains(&word) || is_secret_name(word) => Next::Secret,
        false if is_name(word) && is_secret_name(word) => Next::Assignment,
        _ => Next::Anything,
    }
}

/// A word by itself.
fn shown(word: &str) -> String {
    // Most words of a log are: too short for a key, and with nothing in it that separates a name from a value.
    if word.len() < SHORTEST_KEY && word.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return word.to_owned();
    }
    let (mut names, mut value) = ("", word);
    // `--env=NAME=value`
    while !is_key(value)
        && let Some((name, rest)) = value.split_once('=').filter(|(name, _)| is_name(name))
    {
        names = &word[..word.len() - rest.len()];
        value = match rest {
            "" => return word.to_owned(),
            _ if is_variable(name) || is_secret_name(name) => return format!("{names}{MASK}"),
            _ if USER_OPTIONS.contains(&name) => return format!("{names}{}", mask_password(rest)),
            _ => rest,
        };
    }
    format!("{names}{}", shown_value(value))
}

fn shown_value(word: &str) -> String {
    if is_key(word) {
        return MASK.to_owned();
    }
    if let Some(header) = mask_header(word) {
        return header;
    }
    let letter = SECRET_LETTERS.iter().find(|letter| word.len() > 2 && word.starts_with(**letter));
    // `-pX`, but not `-parallel`
    if let Some(letter) = letter.filter(|_| !word[2..].bytes().all(|b| b.is_ascii_lowercase() || b == b'-')) {
        return format!("{letter}{MASK}");
    }
    if word.contains("://") && !word.contains(|c: char| is_quote(c) || c.is_whitespace()) {
        return mask_address(word);
    }
    if word.contains(|c| is_quote(c) || is_delimiter(c)) { masked_text(word) } else { word.to_owned() }
}

/// What an option, a variable or a header can be called.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// As in `env NAME=value` and `docker run -e NAME=value`: environments are never shown.
fn is_variable(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// Whether two letters stand in it by which a telling part or word begins. A child may log megabytes, and hardly any word passes.
fn may_be_secret_name(name: &str) -> bool {
    name.as_bytes().windows(2).any(|pair| {
        matches!(
            &[pair[0].to_ascii_lowercase(), pair[1].to_ascii_lowercase()],
            b"ke"
                | b"to"
                | b"se"
                | b"pa"
                | b"pw"
                | b"au"
                | b"cr"
                | b"be"
                | b"co"
                | b"pr"
                | b"si"
                | b"ps"
                | b"jw"
                | b"ot"
        )
    })
}

fn is_secret_name(name: &str) -> bool {
    if !may_be_secret_name(name) {
        return false;
    }
    let name = name.to_ascii_lowercase().replace("authori", "auth").replace("author", "");
    SECRET_PARTS.iter().any(|part| name.contains(part)) || words_of(&name).any(|word| SECRET_WORDS.contains(&word))
}

fn words_of(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_alphanumeric())
}

/// `Authorization: Bearer x`, `X-Api-Key:x`, `-HCookie: a=b`. But `keycloak:22` is an image, and no header.
fn mask_header(word: &str) -> Option<String> {
    let (name, value) = word.split_once(':')?;
    let plain = name.strip_prefix("-H").unwrap_or(name);
    if value.is_empty() || !is_name(plain) || !is_secret_name(plain) {
        return None;
    }
    const WHOLE: [&str; 12] = [
        "authorization",
        "auth",
        "token",
        "key",
        "apikey",
        "secret",
        "password",
        "pass",
        "cookie",
        "bearer",
        "credential",
        "signature",
    ];
    let lower = plain.to_ascii_lowercase();
    let is_header =
        plain.len() < name.len() || value.starts_with(' ') || words_of(&lower).any(|word| WHOLE.contains(&word));
    let space = if value.starts_with(' ') { " " } else { "" };
    is_header.then(|| format!("{name}:{space}{MASK}"))
}

/// `user:password`
fn mask_password(word: &str) -> String {
    word.split_once(':').map_or_else(|| word.to_owned(), |(user, _)| format!("{user}:{MASK}"))
}

fn is_key(word: &str) -> bool {
    (word.len() >= SHORTEST_KEY && KEYS.iter().any(|key| word.starts_with(key)) && !word.contains(['/', ' ']))
        || is_random(word)
}

/// Long, of one piece, with letters and digits mixed all over: no person has typed that. A path is none, a name with a UUID in it is
/// none, and a hash behind `@` or `#` belongs to a package.
fn is_random(word: &str) -> bool {
    const MIN_TOKEN: usize = 24;
    /// So much of it tells.
    const MAX_TOKEN: usize = 1024;
    let word = word.trim_end_matches('=');
    let is_path = ["/", "./", "../", "~/"].iter().any(|start| word.starts_with(start));
    let is_of_one_piece =
        || word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'+' | b'/' | b'.' | b'~'));
    if word.len() < MIN_TOKEN || is_path || !is_of_one_piece() {
        return false;
    }
    let word = word.get(..MAX_TOKEN).unwrap_or(word);
    let (_, last) = word.rsplit_once('.').unwrap_or_default();
    if (1..=5).contains(&last.len()) {
        return false; // the name of a file
    }
    let word = without_uuids(word);
    let longest = word.split('.').max_by_key(|piece| piece.len()).unwrap_or_default();
    longest.len() >= MIN_TOKEN && is_mixed(longest)
}

/// Whether letters and digits change all the time, and hardly any part of it is a word.
fn is_mixed(piece: &str) -> bool {
    let bytes = piece.as_bytes();
    let has = |kind: fn(&u8) -> bool| bytes.iter().any(kind);
    // Base64 has slashes, and so has a path below the current directory.
    let has_both_cases = has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    if !has_both_cases && (bytes.contains(&b'/') || !has(u8::is_ascii_digit)) {
        return false;
    }
    let length = bytes.iter().filter(|b| b.is_ascii_alphanumeric()).count();
    let changes = bytes.windows(2).filter(|pair| {
        let both = pair[0].is_ascii_alphanumeric() && pair[1].is_ascii_alphanumeric();
        let at_digit = pair[0].is_ascii_digit() != pair[1].is_ascii_digit();
        both && (at_digit || pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
    });
    let changes = changes.count();
    changes * 3 >= length || changes * 5 >= length && in_words(bytes) * 2 < length
}

/// How many letters are in words of four letters and more: in small letters, with or without a large one before, or in large ones.
fn in_words(bytes: &[u8]) -> usize {
    let (mut in_words, mut run) = (0, 0);
    let mut before = b' ';
    for &b in bytes.iter().chain(b" ") {
        let goes_on = b.is_ascii_alphabetic()
            && run > 0
            && (b.is_ascii_lowercase() && (before.is_ascii_lowercase() || run == 1)
                || b.is_ascii_uppercase() && before.is_ascii_uppercase());
        if !goes_on {
            in_words += if run >= 4 { run } else { 0 };
            run = 0;
        }
        run += usize::from(b.is_ascii_alphabetic());
        before = b;
    }
    in_words
}

/// A profile or a session may be called by one.
fn without_uuids(word: &str) -> String {
    const LENGTHS: [usize; 5] = [8, 4, 4, 4, 12];
    let mut left = word.to_owned();
    let is_uuid = |text: &str| {
        let parts = text.split('-');
        parts.clone().map(str::len).eq(LENGTHS) && parts.flat_map(str::bytes).all(|b| b.is_ascii_hexdigit())
    };
    let mut at = 0;
    while let Some(part) = left.get(at..at + 36) {
        if is_uuid(part) {
            left.replace_range(at..at + 36, "");
        } else {
            at += 1;
        }
    }
    left
}

/// `scheme://user:password@host/path?key=value#key=value`
fn mask_address(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let (rest, fragment) = rest.split_once('#').map_or((rest, None), |(rest, fragment)| (rest, Some(fragment)));
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let authority = match authority.rsplit_once('@') {
        Some(("git", _)) => authority.to_owned(),
        Some((user, host)) => {
            format!("{}{MASK}@{host}", user.split_once(':').map_or(String::new(), |(n, _)| format!("{n}:")))
        }
        None => authority.to_owned(),
    };
    // Some servers have the key in the path; but a commit there is no key.
    let is_commit = |part: &str| matches!(part.len(), 40 | 64) && part.bytes().all(|b| b.is_ascii_hexdigit());
    let step = |part: &str| if is_key(part) && !is_commit(part) { MASK.to_owned() } else { part.to_owned() };
    let path = path.split('/').map(step).collect::<Vec<_>>().join("/");
    let parameters = |sign: char, text: Option<&str>| {
        let mask = |part: &str| match part.split_once('=') {
            Some((name, value)) if is_secret_name(name) || is_key(value) => format!("{name}={MASK}"),
            _ => part.to_owned(),
        };
        text.map_or(String::new(), |text| {
            format!("{sign}{}", text.split('&').map(mask).collect::<Vec<_>>().join("&"))
        })
    };
    format!("{scheme}://{authority}{path}{}{}", parameters('?', query), parameters('#', fragment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn shown(command: &[&str], expected: &[&str]) {
        assert_eq!(masked(command), expected);
    }

    #[track_caller]
    fn stays(command: &str) {
        let words: Vec<_> = command.split(' ').collect();
        assert_eq!(masked(&words).join(" "), command);
    }

    /// What decides at a glance decides as the whole would.
    #[test]
    fn every_telling_name_passes_the_first_look() {
        for name in SECRET_PARTS.into_iter().chain(SECRET_WORDS) {
            assert!(may_be_secret_name(name) && may_be_secret_name(&name.to_ascii_uppercase()), "{name}");
        }
        assert!(!may_be_secret_name("log") && !may_be_secret_name(""));
    }

    #[test]
    fn the_value_after_a_telling_name_is_masked() {
        for flag in [
            "--bearer",
            "--pat",
            "--key",
            "-p",
            "-k",
            "--api-key",
            "--apiKey",
            "--TOKEN",
            "--github-pat",
            "--client-secret",
            "--passphrase",
            "--password",
            "--auth",
            "--credentials",
            "--session-cookie",
            "-token",
            "--access_token",
            "--authorization",
        ] {
            shown(&["server", flag, "hunter2", "--port", "80"], &["server", flag, "***", "--port", "80"]);
            shown(&["server", flag, "--port", "80"], &["server", flag, "--port", "80"]);
        }
        for flag in ["--bearer", "--api-key", "--PASSWORD", "api_key", "API_KEY", "HOST", "--pat", "-Dauth.token"] {
            shown(&["x", &format!("{flag}=hunter2"), "y"], &["x", &format!("{flag}=***"), "y"]);
        }
        shown(&["env", "API_KEY=x y", "cmd"], &["env", "API_KEY=***", "cmd"]);
        shown(&["docker", "--env=FOO=bar", "-eTOKEN=x"], &["docker", "--env=FOO=***", "-eTOKEN=***"]);
        shown(&["mysql", "-phunter2", "-kS3"], &["mysql", "-p***", "-k***"]);
        shown(&["curl", "-u", "joe:x", "--user=joe:x"], &["curl", "-u", "joe:***", "--user=joe:***"]);
    }

    #[test]
    fn headers_and_cookies_are_masked() {
        for (word, expected) in [
            ("-HAuthorization:hunter2", "-HAuthorization:***"),
            ("-HX-Custom-Auth: hunter2", "-HX-Custom-Auth: ***"),
            ("Authorization: Bearer hunter2", "Authorization: ***"),
            ("X-Api-Key:hunter2", "X-Api-Key:***"),
            ("Cookie: session=hunter2; other=hunter2", "Cookie: ***"),
            ("--header=PRIVATE-TOKEN: hunter2", "--header=PRIVATE-TOKEN: ***"),
        ] {
            shown(&["curl", "-H", word], &["curl", "-H", expected]);
        }
        stays("docker run keycloak:22 oauth2-proxy:v7.4 Content-Type:application/json");
    }

    #[test]
    fn a_script_and_an_object_are_looked_through() {
        for (text, expected) in [
            (
                "exec env API_KEY=hunter2 server --token hunter2; echo done",
                "exec env API_KEY=*** server --token ***; echo done",
            ),
            ("server --password=\"hun ter2\" --key 'hun ter2' x", "server --password=\"***\" --key '***' x"),
            ("curl -H \"Authorization: Bearer hunter2\" h", "curl -H \"Authorization: *** ***\" h"),
            ("curl -H 'Cookie: a=hunter2; b=hunter2' h", "curl -H 'Cookie: ***' h"),
            ("{\"apiKey\": \"hunter2\", \"port\": 80}", "{\"apiKey\": \"***\", \"port\": 80}"),
            ("{\"token\":\"hunter2\"}", "{\"token\":\"***\"}"),
            ("Server=db;Password=hunter2;Port=80", "Server=db;Password=***;Port=80"),
            ("password = hunter2, user = joe", "password = ***, user = joe"),
            ("echo 'it is \"fine\" & done\n", "echo 'it is \"fine\" & done\n"),
        ] {
            assert_eq!(masked_text(text), expected);
            shown(&["sh", "-c", text], &["sh", "-c", expected]);
        }
    }

    #[test]
    fn addresses_show_where_and_not_with_what() {
        for (address, expected) in [
            ("postgres://joe:hunter2@db:5432/x", "postgres://joe:***@db:5432/x"),
            ("https://hunter2@h", "https://***@h"),
            ("https://h/sse?token=hunter2&x=1", "https://h/sse?token=***&x=1"),
            (
                "https://h/x?X-Amz-Signature=hunter2&api_key=hunter2#access_token=hunter2",
                "https://h/x?X-Amz-Signature=***&api_key=***#access_token=***",
            ),
            ("--url=https://joe:hunter2@h/", "--url=https://joe:***@h/"),
            ("https://mcp.example.com/s/Zk9xQ2w7TnB4c1JtVjNoTGd5/mcp", "https://mcp.example.com/s/***/mcp"),
        ] {
            shown(&["proxy", address], &["proxy", expected]);
        }
        stays(
            "http://localhost:80/a?b=c https://example.com/docs/getting-started#install git+ssh://git@github.com/a/b.git",
        );
        stays("https://raw.githubusercontent.com/a/b/2fd4e1c67a2d28fced849ee1bb76e7391b93eb12/x");
    }

    #[test]
    fn long_random_words_are_masked() {
        for secret in [
            "sk-ant-abcdef0123456789",
            "2fd4e1c67a2d28fced849ee1bb76e739",
            "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
            "Zk9xQ2w7TnB4c1JtVjNoTGd5",
            "q8Zr/3kTbW+u9LxYpA2v/Nc7HdJ1sGf0mEiVo5Qk",
            "dGhpcyBpcyBhIHNlY3JldCBrZXkgMTIzNDU2Nzg5MA==",
            "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
        ] {
            shown(&["server", secret], &["server", "***"]);
            shown(&["server", &format!("--x={secret}")], &["server", "--x=***"]);
        }
    }

    /// Of keys as they are made, hardly any looks like a name.
    #[test]
    fn nearly_all_random_words_are_masked() {
        const BASE64: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
        let mut random = crate::random::Random::new(1);
        for (letters, length) in
            [(&BASE64[..16], 32), (&BASE64[..16], 64), (&BASE64[..62], 24), (&BASE64[..62], 40), (BASE64, 43)]
        {
            let mut word = || (0..length).map(|_| char::from(random.pick(letters))).collect::<String>();
            let shown = (0..5000).filter(|_| masked(&[word()]) != ["***"]).count();
            assert!(shown <= 250, "{shown} of 5000 with {length} of {} letters are shown", letters.len());
        }
    }

    /// A command line may have two mebibytes, and a start must not wait for it, nor break.
    #[test]
    fn words_of_any_length_are_looked_at_quickly() {
        let began = std::time::Instant::now();
        for part in ["a=", "x", "-", "a1", "'", "--key ", "a:", "http://", "{\"token\":", "=", "\u{e4}"] {
            let word = part.repeat((1 << 17) / part.len());
            assert_eq!(masked(&[word]).len(), 1);
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
    }

    #[test]
    fn other_words_stay_as_they_are() {
        for plain in [
            "npx -y @modelcontextprotocol/server-everything@2025.11.25",
            "server --author joe --path /x --pattern a*b --patch 3 --no-auth on",
            "uvx mcp-server-git --repository /home/joe/projects/a-very-long-name-for-a-repository-1",
            "node /usr/lib/x/index.js --port=8080 -parallel -y",
            "/nix/store/3n58xw4373jp0ljirf06d8077j15pc4j-glibc-2.37-8/bin/x ./a1b2c3d4e5f6a7b8c9d0e1f2a3b4/x",
            "npx github:joe/server#2fd4e1c67a2d28fced849ee1bb76e7391b93eb12 pkg@2fd4e1c67a2d28fced849ee1bb76e7391b93eb12",
            "docker run ghcr.io/a/b@sha256:2fd4e1c67a2d28fced849ee1bb76e7392fd4e1c67a2d28fced849ee1bb76e739",
            "chrome --profile 123e4567-e89b-12d3-a456-426614174000 profile-123e4567-e89b-12d3-a456-426614174000",
            "claude-3-5-sonnet-20241022-v2 x86_64-unknown-linux-gnu-2024 s3BucketNameForV2ApiGateway",
            "getUserByIdAndNameFromDatabase2 app.3f2a9c1b7d6e5f4a3b2c1d0e.bundle.js 1763371200000000000000000",
            "node_modules/.bin/some-Server2-With-A-Long-Name3 user@host:22 a=b 2026-01-31T12:00:00Z",
        ] {
            stays(plain);
        }
    }
}
