//! Which of an engine's own metrics a `metric:` column means.

/// `NAME` or `NAME{label=value,…}`: the sum over all series of that name that carry these labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// The metric's name, such as `vllm:num_requests_waiting`.
    pub name: Box<str>,
    /// Labels that a series must carry to count.
    pub labels: Box<[(Box<str>, Box<str>)]>,
}

impl Series {
    /// Reads `NAME` or `NAME{label=value,…}`; values may be quoted.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (name, labels) = match text.split_once('{') {
            None => (text, ""),
            Some((name, rest)) => (name, rest.strip_suffix('}').ok_or("a closing brace is missing")?),
        };
        if name.is_empty() {
            return Err("the metric's name is missing");
        }
        let labels = labels
            .split(',')
            .filter(|label| !label.is_empty())
            .map(|label| {
                let (key, value) = label.split_once('=').ok_or("a label is written `name=value`")?;
                Ok((key.trim().into(), value.trim().trim_matches('"').into()))
            })
            .collect::<Result<_, &'static str>>()?;
        Ok(Self { name: name.into(), labels })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_and_labels() {
        let series = Series::parse(r#"a:b{x=1,y="two"}"#).unwrap();
        assert_eq!(&*series.name, "a:b");
        assert_eq!(series.labels.len(), 2);
        assert_eq!(series.labels[1], ("y".into(), "two".into()));
        assert!(Series::parse("a{x").is_err());
        assert!(Series::parse("a{x}").is_err());
        assert!(Series::parse("").is_err());
    }
}
