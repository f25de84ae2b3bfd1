//! The pages, and what is in them: fenced blocks, code spans, headings, links.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The folder of the checkout.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the checkout")
}

/// A page in Markdown.
pub(super) struct Page {
    /// Its path in the checkout.
    pub(super) name: String,
    pub(super) text: String,
}

/// A fenced block.
pub(super) struct Block {
    pub(super) language: String,
    pub(super) text: String,
    /// The heading above it.
    pub(super) heading: String,
    /// The last line of prose above it.
    pub(super) above: String,
}

impl Page {
    /// The page at this path in the checkout.
    pub(super) fn at(name: &str) -> Self {
        let text = std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { name: name.to_owned(), text }
    }

    /// README.md and the pages in docs/.
    pub(super) fn of_users() -> Vec<Self> {
        [Self::at("README.md")].into_iter().chain(pages_in("docs")).collect()
    }

    /// All pages that a reader finds in the checkout.
    pub(super) fn all() -> Vec<Self> {
        let examples = ["examples/memory-bridge", "examples/node", "examples/python"];
        ["", "docs", "bench", "peers", ".github", "python", "node/nostray"]
            .into_iter()
            .chain(examples)
            .flat_map(pages_in)
            .collect()
    }

    /// The fenced blocks.
    pub(super) fn blocks(&self) -> Vec<Block> {
        self.parts().1
    }

    /// Everything that is not in a fenced block.
    pub(super) fn prose(&self) -> String {
        self.parts().0
    }

    fn parts(&self) -> (String, Vec<Block>) {
        let (mut prose, mut blocks) = (String::new(), Vec::<Block>::new());
        let (mut heading, mut above, mut inside) = (String::new(), String::new(), false);
        for line in self.text.lines() {
            match line.strip_prefix("```") {
                Some(_) if inside => inside = false,
                Some(language) => {
                    inside = true;
                    let (language, heading, above) = (language.to_owned(), heading.clone(), above.clone());
                    blocks.push(Block { language, text: String::new(), heading, above });
                }
                None if inside => {
                    let text = &mut blocks.last_mut().expect("it has begun").text;
                    text.push_str(line);
                    text.push('\n');
                }
                None => {
                    if line.starts_with('#') {
                        line.trim_start_matches('#').trim().clone_into(&mut heading);
                    }
                    if !line.trim().is_empty() {
                        line.clone_into(&mut above);
                    }
                    prose.push_str(line);
                    prose.push('\n');
                }
            }
        }
        assert!(!inside, "{}: a block does not end", self.name);
        (prose, blocks)
    }

    /// The code spans, in the order in which they come.
    pub(super) fn spans(&self) -> Vec<String> {
        // A span may go over the end of a line.
        let prose = self.prose().replace('\n', " ");
        prose.split('`').skip(1).step_by(2).map(|span| span.trim().to_owned()).collect()
    }

    /// The command lines in the blocks for a shell, without their comments.
    pub(super) fn shell_lines(&self) -> Vec<String> {
        let blocks = self.blocks().into_iter().filter(|block| block.language == "sh");
        let text: String = blocks.map(|block| block.text.replace("\\\n", " ")).collect();
        let command = |line: &str| line.split("  #").next().unwrap_or_default().trim().to_owned();
        text.lines().map(command).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
    }

    /// The names by which a link leads to a heading, as forges make them.
    pub(super) fn anchors(&self) -> HashSet<String> {
        let prose = self.prose();
        let headings = prose.lines().filter(|line| line.starts_with('#'));
        let anchor = |heading: &str| {
            let text = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        };
        headings.map(anchor).collect()
    }

    /// Where its links and pictures lead.
    pub(super) fn links(&self) -> Vec<String> {
        let prose = self.prose();
        let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        targets.map(str::to_owned).collect()
    }

    /// The rows of its tables, as cells.
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let prose = self.prose();
        let rows = prose.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
        rows.map(|row| row.split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
    }
}

fn pages_in(folder: &str) -> Vec<Page> {
    let entries = std::fs::read_dir(root().join(folder)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| Path::new(name).extension().is_some_and(|e| e == "md")).collect();
    names.sort();
    names.into_iter().map(|name| Page::at(&Path::new(folder).join(name).display().to_string())).collect()
}
