//! Ids of requests: numbers or strings, which keep their type.

use std::borrow::Cow;
use std::fmt;

use crate::text::{escape, unescape};

/// The id of a request, in a canonical form: 1, 1.0 and 1e0 are equal, "\u0041" and "A" are equal, and 1 and "1" are not.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Id {
    /// A whole number, which is what nearly all clients use.
    Int(i64),
    /// Any other number, in its canonical decimal form.
    Number(Box<str>),
    /// A string.
    Text(Box<str>),
}

impl Id {
    /// Reads it from its JSON token. `None` if the token is not an id.
    #[must_use]
    pub fn from_json(token: &[u8]) -> Option<Self> {
        IdToken::read(token).map(|token| token.id())
    }

    /// Writes it as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = Vec::new();
        self.write(&mut json);
        // All parts are UTF-8.
        String::from_utf8(json).unwrap_or_default()
    }

    pub(crate) fn write(&self, into: &mut Vec<u8>) {
        match self {
            Self::Int(number) => into.extend_from_slice(number.to_string().as_bytes()),
            Self::Number(number) => into.extend_from_slice(number.as_bytes()),
            Self::Text(text) => escape(text, into),
        }
    }
}

impl From<i64> for Id {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<&str> for Id {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

/// As JSON, so that a log distinguishes 1 and "1".
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::Number(number) => f.write_str(number),
            Self::Text(_) => f.write_str(&self.to_json()),
        }
    }
}

/// An id as it stands in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdToken<'a> {
    raw: &'a [u8],
    value: Value<'a>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value<'a> {
    Int(i64),
    Number(Box<str>),
    Text(Cow<'a, str>),
}

impl<'a> IdToken<'a> {
    #[inline]
    pub(crate) fn read(raw: &'a [u8]) -> Option<Self> {
        let value = match raw.first()? {
            b'"' => Value::Text(unescape(raw)?),
            _ => match small(raw) {
                Some(number) => Value::Int(number),
                None => number(raw)?,
            },
        };
        Some(Self { raw, value })
    }

    /// The JSON token as it came.
    #[must_use]
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// The id in its canonical form.
    #[must_use]
    pub fn id(&self) -> Id {
        match &self.value {
            Value::Int(number) => Id::Int(*number),
            Value::Number(number) => Id::Number(number.clone()),
            Value::Text(text) => Id::Text(text.as_ref().into()),
        }
    }
}

/// Reads up to 18 digits and nothing else: the id of a counter.
#[inline]
fn small(token: &[u8]) -> Option<i64> {
    if token.len() > 18 || (token[0] == b'0' && token.len() > 1) {
        return None;
    }
    token.iter().try_fold(0_i64, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
}

/// Reads any JSON number. It works on the digits, since a floating-point number would lose some.
fn number(token: &[u8]) -> Option<Value<'static>> {
    let parts = Parts::of(token)?;
    let mut digits = [parts.whole, parts.fraction].concat();
    let Some(first) = digits.iter().position(|digit| *digit != b'0') else { return Some(Value::Int(0)) };
    let trailing = digits.iter().rev().take_while(|digit| **digit == b'0').count();
    let Some(exponent) = parts.exponent() else {
        // No client uses such a number. It is valid, and it equals itself.
        return std::str::from_utf8(token).ok().map(|text| Value::Number(text.into()));
    };
    digits.truncate(digits.len() - trailing);
    digits.drain(..first);
    // The value is 0.DIGITS times ten to the power of `point`.
    let point = exponent + trailing as i64 - parts.fraction.len() as i64 + digits.len() as i64;
    let text = decimal(parts.negative, &digits, point);
    Some(text.parse().map_or_else(|_| Value::Number(text.into()), Value::Int))
}

struct Parts<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Splits a number by the JSON grammar. `None` for any other text.
    fn of(token: &'a [u8]) -> Option<Self> {
        let digits = |text: &'a [u8]| text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count());
        let (negative, rest) = match token {
            [b'-', rest @ ..] => (true, rest),
            _ => (false, token),
        };
        let (whole, rest) = digits(rest);
        if whole.is_empty() || (whole[0] == b'0' && whole.len() > 1) {
            return None;
        }
        let (fraction, rest) = match rest {
            [b'.', rest @ ..] => digits(rest),
            _ => (&[][..], rest),
        };
        if fraction.is_empty() && token.get(usize::from(negative) + whole.len()) == Some(&b'.') {
            return None;
        }
        let exponent = match rest {
            [] => &[][..],
            [b'e' | b'E', exponent @ ..] => {
                let (_, after) =
                    digits(exponent.strip_prefix(b"+").or(exponent.strip_prefix(b"-")).unwrap_or(exponent));
                if !after.is_empty() || !exponent.last().is_some_and(u8::is_ascii_digit) {
                    return None;
                }
                exponent
            }
            _ => return None,
        };
        Some(Self { negative, whole, fraction, exponent })
    }

    /// `None` when it is out of range.
    fn exponent(&self) -> Option<i64> {
        if self.exponent.is_empty() {
            return Some(0);
        }
        let exponent: i64 = std::str::from_utf8(self.exponent).ok()?.parse().ok()?;
        (exponent.unsigned_abs() < 1 << 48).then_some(exponent)
    }
}

/// 0.DIGITS times ten to the power of `point`, as JavaScript would write it.
fn decimal(negative: bool, digits: &[u8], point: i64) -> String {
    let digits = String::from_utf8_lossy(digits);
    let length = digits.len() as i64;
    let sign = if negative { "-" } else { "" };
    let zeros = |count: i64| "0".repeat(count as usize);
    match point {
        -5..=0 => format!("{sign}0.{}{digits}", zeros(-point)),
        1..=21 if point >= length => format!("{sign}{digits}{}", zeros(point - length)),
        1..=21 => format!("{sign}{}.{}", &digits[..point as usize], &digits[point as usize..]),
        _ if length == 1 => format!("{sign}{digits}e{}", point - 1),
        _ => format!("{sign}{}.{}e{}", &digits[..1], &digits[1..], point - 1),
    }
}
