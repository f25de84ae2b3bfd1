//! Ending sessions of a shared child, of which there are none yet on Windows.

use nostray_pen::Ask;
use nostray_registry::Pen;

use crate::selection::Selection;

/// Nothing is to be done.
pub(crate) fn end(_: &Pen, _: &Selection, _: Ask) -> bool {
    true
}
