//! What a [`crate::Pen`] is started from.

use std::ffi::OsStr;

use super::{ChildOptions, ChildSpec, Stdio};
use crate::Error;

/// What a [`crate::Pen`] starts. Made by [`PenSpec::builder`], which checks it.
#[derive(Debug, Clone)]
pub struct PenSpec {
    pub(crate) child: ChildSpec,
    pub(crate) streams: [Stdio; 3],
}

impl PenSpec {
    /// A spec for this program. Without a slash in it, it is looked up in the child's `PATH`.
    pub fn builder(program: impl AsRef<OsStr>) -> PenSpecBuilder {
        PenSpecBuilder { child: ChildOptions::new(program.as_ref()), streams: [Stdio::Piped; 3] }
    }
}

/// Builds a [`PenSpec`]. The order of its options does not matter, but for arguments, and for an option that is given twice: the
/// last one counts.
#[derive(Debug, Clone)]
#[must_use]
pub struct PenSpecBuilder {
    pub(super) child: ChildOptions,
    streams: [Stdio; 3],
}

impl PenSpecBuilder {
    /// Where the child's input comes from [default: a pipe]. Without a pipe there is no end of input that would end the child: the end
    /// of the host, the drop of the [`crate::Pen`] or a stop does.
    pub fn stdin(mut self, stdio: Stdio) -> Self {
        self.streams[0] = stdio;
        self
    }

    /// Where the child's output goes [default: a pipe].
    pub fn stdout(mut self, stdio: Stdio) -> Self {
        self.streams[1] = stdio;
        self
    }

    /// Where the child's stderr goes [default: a pipe].
    pub fn stderr(mut self, stdio: Stdio) -> Self {
        self.streams[2] = stdio;
        self
    }

    /// Checks the options.
    pub fn build(self) -> Result<PenSpec, Error> {
        Ok(PenSpec { child: self.child.build()?, streams: self.streams })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::IfTaken;

    #[test]
    fn an_invalid_option_is_refused_by_its_name() {
        let fails = |builder: PenSpecBuilder| builder.build().expect_err("wrong").to_string();
        assert!(fails(PenSpec::builder("")).contains("program"));
        assert!(fails(PenSpec::builder("a\0b")).contains("zero byte"));
        assert!(fails(PenSpec::builder("x").arg("\0")).contains("zero byte"));
        assert!(fails(PenSpec::builder("x").env("A=B", "1")).contains("environment"));
        assert!(fails(PenSpec::builder("x").env("", "1")).contains("environment"));
        assert!(fails(PenSpec::builder("x").label("", "1")).contains("label"));
        assert!(fails(PenSpec::builder("x").slot("a/b", IfTaken::Wait)).contains("slot"));
        assert!(PenSpec::builder("x").args(["a", "b"]).env("A", "=").slot("db", IfTaken::Fail).build().is_ok());
    }

    #[test]
    fn the_order_of_options_does_not_matter() {
        type Option = fn(PenSpecBuilder) -> PenSpecBuilder;
        let options: [Option; 7] = [
            |spec| spec.env("A", "1"),
            PenSpecBuilder::env_clear,
            |spec| spec.current_dir("/"),
            |spec| spec.slot("db", IfTaken::WaitFor(Duration::from_secs(1))),
            |spec| spec.stdin(Stdio::Null),
            |spec| spec.term_grace(Duration::ZERO),
            |spec| spec.session("s"),
        ];
        let build = |order: &mut dyn Iterator<Item = &Option>| {
            let spec = order.fold(PenSpec::builder("x").arg("a"), |spec, option| option(spec));
            format!("{:?}", spec.build().expect("right"))
        };
        let forwards = build(&mut options.iter());
        for turn in 0..options.len() {
            assert_eq!(build(&mut options.iter().cycle().skip(turn).take(options.len())), forwards);
            assert_eq!(build(&mut options.iter().rev().cycle().skip(turn).take(options.len())), forwards);
        }
    }
}
