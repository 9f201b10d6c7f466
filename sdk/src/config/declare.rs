//! The macros that declare a configuration.

/// Declares a configuration: a struct whose every field has a default, and with it
/// [`Settings`](crate::config::Settings). See [`config`](mod@crate::config).
#[macro_export]
macro_rules! config {
    (
        $(#[doc = $about:literal])*
        $visibility:vis struct $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $field_visibility:vis $field:ident: $type:ty = $default:expr $(, in $least:literal..=$greatest:literal)?;
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq)]
        $visibility struct $name {
            $(
                $(#[doc = $doc])*
                $field_visibility $field: $type,
            )*
        }

        impl ::core::default::Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        impl $crate::config::Settings for $name {
            const KEYS: &'static [&'static str] = &[$( ::core::stringify!($field), )*];

            fn properties() -> ::std::vec::Vec<::std::string::String> {
                let defaults = Self::default();
                ::std::vec![$(
                    $crate::config::__property(
                        ::core::stringify!($field),
                        ::core::concat!($( $doc, )*),
                        $crate::__limits!($($least, $greatest)?),
                        &defaults.$field,
                    ),
                )*]
            }

            fn read(fields: &mut $crate::config::Fields<'_>) -> Self {
                let defaults = Self::default();
                Self {
                    $( $field: fields.take(
                        ::core::stringify!($field),
                        $crate::__limits!($($least, $greatest)?),
                        defaults.$field,
                    ), )*
                }
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __limits {
    () => {
        ::core::option::Option::None
    };
    ($least:literal, $greatest:literal) => {
        ::core::option::Option::Some(($least as f64, $greatest as f64))
    };
}

/// Declares an enum for a configuration, written as text; the first case is the default.
///
/// ```
/// sluicegate_sdk::config_enum! {
///     /// When to act.
///     pub enum Mode {
///         /// When it pays.
///         Auto = "auto",
///         /// Never.
///         Never = "never",
///     }
/// }
/// ```
#[macro_export]
macro_rules! config_enum {
    (
        $(#[doc = $about:literal])*
        $visibility:vis enum $name:ident {
            $(#[doc = $first_doc:literal])*
            $first:ident = $first_text:literal
            $(,
                $(#[doc = $doc:literal])*
                $case:ident = $text:literal
            )* $(,)?
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        $visibility enum $name {
            $(#[doc = $first_doc])*
            #[default]
            $first,
            $(
                $(#[doc = $doc])*
                $case,
            )*
        }

        impl $crate::config::Value for $name {
            fn schema(_limits: $crate::config::Limits) -> ::std::string::String {
                ::std::string::String::from(::core::concat!(
                    "\"enum\":[\"", $first_text, "\"" $(, ",\"", $text, "\"")*, "]"
                ))
            }

            fn read(
                json: &$crate::config::__Json,
                _limits: $crate::config::Limits,
            ) -> ::core::result::Result<Self, ::std::string::String> {
                match json.as_str() {
                    ::core::option::Option::Some($first_text) => ::core::result::Result::Ok(Self::$first),
                    $( ::core::option::Option::Some($text) => ::core::result::Result::Ok(Self::$case), )*
                    _ => ::core::result::Result::Err(::std::format!(
                        ::core::concat!("expected \"", $first_text, "\"" $(, ", \"", $text, "\"")*, ", found {}"),
                        $crate::config::__shown(json)
                    )),
                }
            }

            fn write(&self) -> ::std::string::String {
                ::std::string::String::from(match self {
                    Self::$first => ::core::concat!("\"", $first_text, "\""),
                    $( Self::$case => ::core::concat!("\"", $text, "\""), )*
                })
            }
        }
    };
}
