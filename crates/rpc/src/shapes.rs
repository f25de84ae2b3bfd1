//! Lines that were checked before, without their values.
//!
//! A program says the same few messages again and again, with other values in them. Of a line that differs from a checked one only
//! inside of strings and in numbers, no more than these values has to be checked: a check reads a line from its begin to its end, and
//! neither what it expects next nor which names it has seen depends on such a value. Names and brackets are a part of the shape, so a line
//! with another name, or with one more, is another shape.

use crate::scan::{StringEnds, number_length, strict_string};

/// So many shapes are remembered: a program that says more at a time is checked a little slower.
const SHAPES: usize = 4;
/// Longer messages, and those with more values, are not remembered: they are rarely alike.
const MAX_VALUES: usize = 16;
const MAX_FIXED: usize = 512;
/// After so many lines in a row of which none was like another, little is spent on the next ones: one of so many is remembered, and they are
/// compared with that alone.
const IN_VAIN: usize = 16;

/// Where a value is in a line: a string without its opening quote, or a number.
#[derive(Clone, Copy, Debug)]
struct Value {
    start: usize,
    end: usize,
    is_string: bool,
}

/// The values of a line that is being checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values {
    list: [Value; MAX_VALUES],
    /// How many there are, also of those for which there is no place.
    count: usize,
}

impl Values {
    pub(crate) fn new() -> Self {
        Self { list: [Value { start: 0, end: 0, is_string: false }; MAX_VALUES], count: 0 }
    }

    /// The next one: of a string all behind the opening quote, with the closing one.
    #[inline]
    pub(crate) fn add(&mut self, start: usize, end: usize, is_string: bool) {
        if let Some(value) = self.list.get_mut(self.count) {
            *value = Value { start, end, is_string };
        }
        self.count += 1;
    }
}

/// A place in all lines of a shape: behind so many of its fixed bytes and so many of its values.
#[derive(Clone, Copy, Debug)]
struct Spot {
    fixed: usize,
    values: usize,
}

/// One line without its values.
#[derive(Clone, Debug, Default)]
struct Shape {
    /// All bytes that are in no value.
    fixed: Vec<u8>,
    /// Of each value, how many fixed bytes are before it, and whether it is a string.
    values: Vec<(usize, bool)>,
    /// Which members it has, and where they begin and end.
    members: Vec<(usize, Spot, Spot)>,
}

/// How many bytes the values of a line take together, up to each of them.
type Taken = [usize; MAX_VALUES + 1];

impl Shape {
    /// Whether this line has this shape, and valid values.
    #[inline]
    fn fits(&self, line: &[u8], strings: &mut StringEnds<'_>, taken: &mut Taken) -> bool {
        let (mut at, mut from) = (0, 0);
        for (number, &(before, is_string)) in self.values.iter().enumerate() {
            let fixed = &self.fixed[from..before];
            if line.get(at..at + fixed.len()) != Some(fixed) {
                return false;
            }
            at += fixed.len();
            let end = match is_string {
                true => strings.plain_end(at).or_else(|| Some(strict_string(line, at).ok()?.end)),
                false => number_length(&line[at..]).map(|length| at + length),
            };
            let Some(end) = end else { return false };
            taken[number + 1] = taken[number] + (end - at);
            (at, from) = (end, before);
        }
        line[at..] == self.fixed[from..]
    }

    /// Becomes the shape of this line.
    fn learn(&mut self, line: &[u8], values: &[Value], places: &[(usize, usize)]) {
        self.fixed.clear();
        self.values.clear();
        self.members.clear();
        let mut at = 0;
        for value in values {
            self.fixed.extend_from_slice(&line[at..value.start]);
            self.values.push((self.fixed.len(), value.is_string));
            at = value.end;
        }
        self.fixed.extend_from_slice(&line[at..]);
        let spot = |place: usize| {
            let before = values.iter().take_while(|value| value.end <= place);
            let (count, bytes) =
                before.fold((0, 0), |(count, bytes), value| (count + 1, bytes + value.end - value.start));
            Spot { fixed: place - bytes, values: count }
        };
        let members = places.iter().enumerate().filter(|(_, (_, end))| *end > 0);
        self.members.extend(members.map(|(member, (start, end))| (member, spot(*start), spot(*end))));
    }
}

/// The shapes that were seen last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shapes {
    list: Vec<Shape>,
    /// The one that the last line had, and the one that was learnt last.
    last: usize,
    newest: usize,
    /// How many lines in a row had none.
    in_vain: usize,
}

impl Shapes {
    /// Whether a line has a shape that was learnt, and valid values. Then its members are noted in `places`, which is all zeros, as
    /// a check would note them.
    pub(crate) fn know(&mut self, line: &[u8], strings: &mut StringEnds<'_>, places: &mut [(usize, usize)]) -> bool {
        let mut taken = [0; MAX_VALUES + 1];
        let mut fits = |at: usize| self.list.get(at).is_some_and(|shape| shape.fits(line, strings, &mut taken));
        if !fits(self.last) {
            let others = if self.in_vain > IN_VAIN { 0 } else { self.list.len() };
            let Some(other) = (0..others).find(|at| *at != self.last && fits(*at)) else { return false };
            self.last = other;
        }
        self.in_vain = 0;
        let place = |spot: Spot| spot.fixed + taken[spot.values];
        for &(member, start, end) in &self.list[self.last].members {
            places[member] = (place(start), place(end));
        }
        true
    }

    /// Remembers the shape of a line that was checked and passes as it came, in place of the one that was learnt first.
    pub(crate) fn learn(&mut self, line: &[u8], values: &Values, places: &[(usize, usize)]) {
        self.in_vain += 1;
        let Some(values) = values.list.get(..values.count) else { return };
        let length: usize = values.iter().map(|value| value.end - value.start).sum();
        if line.len() - length > MAX_FIXED || (self.in_vain > IN_VAIN && !self.in_vain.is_multiple_of(IN_VAIN)) {
            return;
        }
        if self.list.len() < SHAPES {
            self.list.push(Shape::default());
        }
        self.newest = (self.newest + 1) % self.list.len();
        self.last = self.newest;
        self.list[self.newest].learn(line, values, places);
    }

    /// Whether the last line that passed had a shape that was learnt before.
    #[cfg(test)]
    pub(crate) fn was_known(&self) -> bool {
        self.in_vain == 0
    }
}
