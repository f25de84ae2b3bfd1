//! Keeping secrets out of records: values of arguments that look like one are masked. The environment is never recorded.

use std::ffi::OsStr;

/// What stands in the place of a secret.
const MASK: &str = "***";

/// Words in the name of an option (or of a variable, in `NAME=value`) whose value is nobody's business.
const NAMES: [&str; 14] = [
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
    "session-key",
    "bearer",
];

/// Beginnings of well-known kinds of keys.
const BEGINNINGS: [&str; 16] = [
    "sk-",
    "sk_",
    "pk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "ASIA",
    "AIza",
    "eyJ",
    "npm_",
];

/// The command line as it may be shown.
pub(crate) fn masked<S: AsRef<OsStr>>(command: &[S]) -> Vec<String> {
    let mut shown = Vec::with_capacity(command.len());
    let mut value_is_secret = false;
    for (position, word) in command.iter().enumerate() {
        let word = word.as_ref().to_string_lossy();
        let (is_option, name) = (word.starts_with('-') && !word.contains('='), word.to_string());
        shown.push(match word.split_once('=') {
            // An option behind a secret one means that the secret one had no value.
            _ if value_is_secret && !word.starts_with('-') => MASK.to_owned(),
            _ if word.contains("://") => mask_in_url(&word),
            Some((name, value)) if is_secret_name(name) || looks_like_a_key(value) => format!("{name}={MASK}"),
            _ if position > 0 && looks_like_a_key(&word) => MASK.to_owned(),
            _ => word.into_owned(),
        });
        value_is_secret = is_option && is_secret_name(&name);
    }
    shown
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace("author", "");
    NAMES.iter().any(|part| name.contains(part))
}

fn looks_like_a_key(value: &str) -> bool {
    let value = value.trim_start_matches("Bearer ").trim_start_matches("bearer ");
    BEGINNINGS.iter().any(|beginning| value.starts_with(beginning)) && value.len() >= 12
        || value.len() >= 32 && is_random(value)
        || value.to_ascii_lowercase().starts_with("authorization:")
}

/// Long, of one word, with letters and digits mixed all over: nobody has typed that.
fn is_random(value: &str) -> bool {
    let all = value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'+' | b'='));
    let changes =
        value.as_bytes().windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count();
    all && changes * 5 >= value.len()
}

/// `https://user:password@host` and secret parameters of a query.
fn mask_in_url(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let authority = match authority.rsplit_once('@') {
        Some((credentials, host)) if credentials.contains(':') => {
            format!("{}:{MASK}@{host}", credentials.split(':').next().unwrap_or_default())
        }
        _ => authority.to_owned(),
    };
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let query = query.map_or_else(String::new, |query| {
        let shown: Vec<_> = query
            .split('&')
            .map(|part| match part.split_once('=') {
                Some((name, value)) if is_secret_name(name) || name == "key" || looks_like_a_key(value) => {
                    format!("{name}={MASK}")
                }
                _ => part.to_owned(),
            })
            .collect();
        format!("?{}", shown.join("&"))
    });
    format!("{scheme}://{authority}{path}{query}")
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[track_caller]
    fn shown(command: &str, expected: &str) {
        let words: Vec<_> = command.split(' ').collect();
        assert_eq!(masked(&words).join(" "), expected);
    }

    #[test]
    fn values_of_secret_options_are_masked() {
        shown("server --api-key abc --port 80", "server --api-key *** --port 80");
        shown("server --token=abc", "server --token=***");
        shown("env GITHUB_TOKEN=abc npx some-server", "env GITHUB_TOKEN=*** npx some-server");
        shown("server --password -v", "server --password -v");
        shown("server --PASSWORD hunter2", "server --PASSWORD ***");
    }

    #[test]
    fn what_looks_like_a_key_is_masked_wherever_it_stands() {
        shown("server sk-proj-abcdefgh12345678", "server ***");
        shown("server ghp_16C7e42F292c6912E7710c838347Ae178B4a", "server ***");
        shown("server --x=9f86d081884c7d659a2feaa0c55ad015", "server --x=***");
        shown("curl -H Authorization:Bearer", "curl -H ***");
    }

    #[test]
    fn credentials_in_addresses_are_masked() {
        shown("psql postgres://joe:secret@db:5432/x", "psql postgres://joe:***@db:5432/x");
        shown("proxy https://h/sse?token=abc&x=1", "proxy https://h/sse?token=***&x=1");
    }

    #[test]
    fn ordinary_words_are_left_alone() {
        for command in [
            "npx -y @modelcontextprotocol/server-everything",
            "uvx mcp-server-git --repository /home/joe/projects/a-very-long-name-for-a-repository-1",
            "node /usr/lib/node_modules/some-server/dist/index.js --port=8080",
            "server --author joe",
            "https://example.org/a?b=c",
        ] {
            shown(command, command);
        }
    }
}
