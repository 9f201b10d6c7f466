//! A column as JSON, which knows neither NaN nor infinities.

use serde::de::Error as _;
use serde::ser::SerializeSeq as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Values of a column. What is not known is NaN here and null in JSON; infinities are `"inf"` and `"-inf"`.
#[derive(Debug, Clone)]
pub struct Numbers(pub Vec<f32>);

impl PartialEq for Numbers {
    /// Unknown values are equal.
    fn eq(&self, other: &Self) -> bool {
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }
}

impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for value in &self.0 {
            match value {
                value if value.is_nan() => list.serialize_element(&())?,
                value if value.is_infinite() => list.serialize_element(&value.to_string())?,
                value => list.serialize_element(value)?,
            }
        }
        list.end()
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Cell {
    Number(f64),
    Text(Box<str>),
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let cells = Vec::<Option<Cell>>::deserialize(deserializer)?;
        #[expect(clippy::cast_possible_truncation, reason = "columns are f32 by contract")]
        let value = |cell| match cell {
            None => Ok(f32::NAN),
            Some(Cell::Number(value)) => Ok(value as f32),
            Some(Cell::Text(text)) => match &*text {
                "inf" => Ok(f32::INFINITY),
                "-inf" => Ok(f32::NEG_INFINITY),
                _ => Err(D::Error::custom(format!(
                    "`{text}` in a column; numbers, null, \"inf\" and \"-inf\" are"
                ))),
            },
        };
        cells.into_iter().map(value).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_comes_back(values in prop::collection::vec(any::<u32>(), 0..20)) {
            let numbers = Numbers(values.into_iter().map(f32::from_bits).collect());
            let json = serde_json::to_string(&numbers).unwrap();
            prop_assert_eq!(serde_json::from_str::<Numbers>(&json).unwrap(), numbers, "{}", json);
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let json = serde_json::to_string(&Numbers(vec![f32::NAN, f32::INFINITY, 0.1])).unwrap();
        assert_eq!(json, "[null,\"inf\",0.1]");
        assert!(serde_json::from_str::<Numbers>("[\"much\"]").is_err());
    }
}
