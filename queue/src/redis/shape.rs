//! Reading what scripts answer.

use ::redis::Value;
use bytes::Bytes;

use super::link::Link;
use crate::store::Error;

/// An answer that has to have a shape.
pub(crate) struct Shape<'a> {
    pub(crate) link: &'a Link,
    pub(crate) script: &'static str,
}

impl Shape<'_> {
    fn wrong(&self) -> Error {
        Error::Corrupt {
            place: self.link.place(),
            detail: format!("the script `{}` answered something else", self.script),
        }
    }

    pub(crate) fn list(&self, value: Value) -> Result<Vec<Value>, Error> {
        match value {
            Value::Array(values) => Ok(values),
            _ => Err(self.wrong()),
        }
    }

    pub(crate) fn bytes(&self, value: Option<Value>) -> Result<Bytes, Error> {
        match value {
            Some(Value::BulkString(bytes)) => Ok(bytes.into()),
            Some(Value::SimpleString(text)) => Ok(text.into()),
            Some(Value::Int(n)) => Ok(n.to_string().into()),
            _ => Err(self.wrong()),
        }
    }

    pub(crate) fn text(&self, value: Option<Value>) -> Result<String, Error> {
        let bytes = self.bytes(value)?;
        String::from_utf8(bytes.into()).map_err(|_| self.wrong())
    }

    /// Reads a number; an empty text is none.
    pub(crate) fn optional(&self, value: Option<Value>) -> Result<Option<u64>, Error> {
        let text = self.text(value)?;
        if text.is_empty() {
            return Ok(None);
        }
        // Lua writes large numbers like 1e+15.
        let exact = text.parse().ok();
        let rounded = || text.parse::<f64>().ok().map(whole);
        exact.or_else(rounded).map(Some).ok_or_else(|| self.wrong())
    }

    pub(crate) fn number(&self, value: Option<Value>) -> Result<u64, Error> {
        self.optional(value)?.ok_or_else(|| self.wrong())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates"
)]
const fn whole(x: f64) -> u64 {
    x as u64
}
