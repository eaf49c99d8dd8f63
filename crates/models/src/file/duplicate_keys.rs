//! JSON in which no object says the same key twice: readers differ in which of them counts.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Whether JSON is well-formed and no object in it has a key twice.
pub(crate) fn check(json: &[u8]) -> Result<(), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    Value.deserialize(&mut deserializer)?;
    deserializer.end()
}

struct Value;

impl<'de> DeserializeSeed<'de> for Value {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            map.next_value_seed(Value)?;
            if let Some(key) = keys.replace(key) {
                return Err(A::Error::custom(format!("the key `{key}` is there twice")));
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Value)?.is_some() {}
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_there_once_in_each_object() {
        check(br#"{"a":{"b":[1,-2,0.5,"x",null,true]},"b":{"b":1}}"#).unwrap();
        for json in [r#"{"a":1,"a":1}"#, r#"{"x":{"a":1,"b":2,"\u0061":3}}"#, r#"[{"a":1,"a":2}]"#] {
            let error = check(json.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("the key `a` is there twice"), "{error}");
        }
        assert!(check(b"{} {}").is_err() && check(b"{").is_err());
    }
}
