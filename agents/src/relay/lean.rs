//! JSON that is looked at once and forgotten: texts stay where they were read, and nothing is hashed.
//!
//! A stream is some dozens of small values for each request, of which a few fields matter.

use std::borrow::Cow;
use std::fmt;
use std::ops::Index;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Number;

/// A value that borrows from its text.
#[derive(Debug, PartialEq)]
pub(super) enum Lean<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'a, str>),
    List(Vec<Self>),
    /// In the order of the text; of a key that stands twice the last counts, as everywhere.
    Map(Vec<(Cow<'a, str>, Self)>),
}

impl<'a> Lean<'a> {
    pub(super) fn read(text: &'a str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(map) = self else { return None };
        let mut from_the_end = map.iter().rev();
        from_the_end
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Number(number) => number.as_u64(),
            _ => None,
        }
    }

    pub(super) const fn is_map(&self) -> bool {
        matches!(self, Self::Map(_))
    }
}

/// What is not there is null.
impl Index<&str> for Lean<'_> {
    type Output = Self;

    fn index(&self, key: &str) -> &Self {
        self.get(key).unwrap_or(&Self::Null)
    }
}

impl fmt::Display for Lean<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Lean<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(is) => serializer.serialize_bool(*is),
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(list) => list.serialize(serializer),
            Self::Map(pairs) => {
                let mut map = serializer.serialize_map(Some(pairs.len()))?;
                for (key, value) in pairs {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Lean<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reading)
    }
}

/// A key, which borrows where it has no escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_str(Reading)? {
            Lean::Text(text) => Ok(Self(text)),
            _ => Err(serde::de::Error::custom("a key that is no text")),
        }
    }
}

struct Reading;

impl<'de> Visitor<'de> for Reading {
    type Value = Lean<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Lean<'de>, E> {
        Ok(Lean::Null)
    }

    fn visit_bool<E>(self, is: bool) -> Result<Lean<'de>, E> {
        Ok(Lean::Bool(is))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Lean<'de>, E> {
        Ok(Lean::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Lean<'de>, E> {
        Ok(Lean::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Lean<'de>, E> {
        Ok(Number::from_f64(number).map_or(Lean::Null, Lean::Number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Lean<'de>, E> {
        Ok(Lean::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Lean<'de>, E> {
        Ok(Lean::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Lean<'de>, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element()? {
            list.push(value);
        }
        Ok(Lean::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Lean<'de>, A::Error> {
        let mut pairs = Vec::new();
        while let Some((Key(key), value)) = map.next_entry()? {
            pairs.push((key, value));
        }
        Ok(Lean::Map(pairs))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_value_says_what_it_says_everywhere() {
        for text in [
            "null",
            "[true,false,-7,18446744073709551615,1.5,\"a\\n\\u00e9\"]",
            "{\"a\":{\"b\\\"\":[]},\"c\":\"\"}",
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(Lean::read(text).unwrap().to_string(), value.to_string());
        }
        for wrong in ["", "{", "{\"a\":1}x", "{1:2}", "\"\\ud800\""] {
            assert!(serde_json::from_str::<Value>(wrong).is_err(), "{wrong}");
            assert!(Lean::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn of_a_key_that_stands_twice_the_last_counts() {
        let text = "{\"n\":1,\"\\u006e\":2}";
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(value["n"], 2);
        assert_eq!(Lean::read(text).unwrap()["n"].as_u64(), Some(2));
        assert_eq!(Lean::read("[]").unwrap()["n"], Lean::Null);
    }
}
