//! Keeping secrets out of records and reports: values of arguments that look like one are masked. The environment is never
//! recorded, nor what is set of it on a command line.

use std::ffi::OsStr;

/// What stands in the place of a secret.
const MASK: &str = "***";
/// Parts of the names of options and variables whose values are nobody's business.
const SECRET_NAMES: [&str; 12] = [
    "token",
    "secret",
    "passw",
    "pwd",
    "apikey",
    "api-key",
    "api_key",
    "auth",
    "credential",
    "private",
    "access-key",
    "access_key",
];
/// How well-known kinds of keys begin.
const KEYS: [&str; 14] = [
    "sk-",
    "sk_",
    "pk_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "eyJ",
    "npm_",
];

/// The words of a command, with values that look like secrets masked.
#[must_use]
pub fn masked<S: AsRef<OsStr>>(command: &[S]) -> Vec<String> {
    let mut is_value_of_secret = false;
    let mask = |word: &S| {
        let word = word.as_ref().to_string_lossy();
        let shown = match word.split_once('=') {
            _ if is_value_of_secret && !word.starts_with('-') => MASK.to_owned(),
            Some((name, value))
                if !name.contains("://") && (is_variable(name) || is_secret_name(name) || is_key(value)) =>
            {
                format!("{name}={MASK}")
            }
            _ if is_key(&word) => MASK.to_owned(),
            _ => mask_in_address(&word),
        };
        is_value_of_secret = word.starts_with('-') && !word.contains('=') && is_secret_name(&word);
        shown
    };
    command.iter().map(mask).collect()
}

/// As in `env NAME=value` and `docker run -e NAME=value`: environments are never shown.
fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace("author", "");
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

fn is_key(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    // As a header: `Authorization: Bearer ...`, `X-Api-Key: ...`
    let is_header = lower
        .split_once(':')
        .is_some_and(|(name, _)| !name.contains('/') && (is_secret_name(name) || name == "authorization"));
    let value = if lower.starts_with("bearer ") { &value[7..] } else { value };
    is_header || (value.len() >= 16 && KEYS.iter().any(|key| value.starts_with(key))) || is_random(value)
}

/// Long, of one piece, with letters and digits mixed all over: nobody has typed that.
fn is_random(value: &str) -> bool {
    let bytes = value.as_bytes();
    let mixed = bytes.windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count();
    bytes.len() >= 32
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'+' | b'='))
        && mixed * 5 >= bytes.len()
}

/// `scheme://user:password@host/path?key=value`
fn mask_in_address(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let (before_query, query) = rest.split_once('?').map_or((rest, None), |(before, query)| (before, Some(query)));
    let (authority, path) = before_query.find('/').map_or((before_query, ""), |at| before_query.split_at(at));
    let authority = match authority.rsplit_once('@') {
        Some((user, host)) => {
            format!("{}{MASK}@{host}", user.split_once(':').map_or(String::new(), |(n, _)| format!("{n}:")))
        }
        None => authority.to_owned(),
    };
    let parts = |query: &str| {
        let mask = |part: &str| match part.split_once('=') {
            Some((name, value)) if is_secret_name(name) || name.contains("key") || is_key(value) => {
                format!("{name}={MASK}")
            }
            _ => part.to_owned(),
        };
        query.split('&').map(mask).collect::<Vec<_>>().join("&")
    };
    let query = query.map_or(String::new(), |query| format!("?{}", parts(query)));
    format!("{scheme}://{authority}{path}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn shown(command: &str, expected: &str) {
        let words: Vec<_> = command.split(' ').map(str::to_owned).collect();
        assert_eq!(masked(&words).join(" "), expected);
    }

    #[test]
    fn secrets_are_masked_and_other_words_are_not() {
        shown("server --api-key abc --port 80", "server --api-key *** --port 80");
        shown("env GITHUB_TOKEN=abc HOST=x npx x --password=x", "env GITHUB_TOKEN=*** HOST=*** npx x --password=***");
        shown("server sk-ant-abcdef0123456789", "server ***");
        shown("curl -H Authorization:abc X-Api-Key:abc", "curl -H *** ***");
        shown("psql postgres://joe:secret@db:5432/x", "psql postgres://joe:***@db:5432/x");
        shown("proxy https://h/sse?token=abc&x=1 https://tok@h", "proxy https://h/sse?token=***&x=1 https://***@h");
        for plain in [
            "npx -y @modelcontextprotocol/server-everything",
            "server --author joe",
            "uvx mcp-server-git --repository /home/joe/projects/a-very-long-name-for-a-repository-1",
            "node /usr/lib/x/index.js --port=8080 http://localhost:80/a?b=c",
        ] {
            shown(plain, plain);
        }
    }
}
