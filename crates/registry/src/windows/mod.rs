//! What of a pen may be left, and how it is ended from outside, on Windows. **Nothing is left of a pen whose front has ended**: the kernel has
//! ended its job. So a sweep only clears away the records of such fronts.

pub(crate) mod ending;
pub(crate) mod folders;
pub(crate) mod survivors;
pub(crate) mod sweep;

/// Why [`nostray_sys::identity::World::current`] is not known, which does not happen.
#[must_use]
pub fn why_no_world() -> String {
    "the processes of this machine cannot be listed".to_owned()
}
