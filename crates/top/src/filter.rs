//! Which children are shown.

use nostray_view::Listed;

/// A text that a child's line, id, sessions or command must have in it, in any case.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    text: String,
    lower: String,
}

impl Filter {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), lower: text.to_lowercase() }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn passes(&self, child: &Listed) -> bool {
        let has = |text: &str| text.to_lowercase().contains(&self.lower);
        self.is_empty()
            || [child.name.as_str(), &child.pen.id, child.condition.word()].into_iter().any(has)
            || child.used_by.iter().any(|user| has(&user.program) || user.session.as_deref().is_some_and(has))
            || child.record().is_some_and(|record| {
                record.command.iter().any(|word| has(word)) || record.session.as_deref().is_some_and(has)
            })
    }
}
