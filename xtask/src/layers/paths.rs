//! Paths from one module of a crate to another.

use std::path::Path;

/// The modules at the root of the crate that `code` names, each with its place. `inside` is the file's
/// path from the folder of sources.
pub(super) fn named(code: &str, inside: &Path) -> Vec<(usize, String)> {
    let mut modules = Vec::new();
    let roots = ["crate::".to_owned(), "super::".repeat(depth(inside))];
    for root in roots.iter().filter(|root| !root.is_empty()) {
        for (at, _) in code.match_indices(root.as_str()) {
            let before = code.get(..at).unwrap_or_default();
            let path_goes_on =
                before.ends_with("::") || before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
            if !path_goes_on {
                heads(code, at + root.len(), &mut modules);
            }
        }
    }
    modules.sort();
    modules
}

/// How many modules deep a file is: `a.rs` and `a/mod.rs` are 1, `a/b.rs` is 2, `lib.rs` is 0.
fn depth(inside: &Path) -> usize {
    let parts = inside.components().count();
    match inside.file_stem().and_then(|stem| stem.to_str()) {
        Some("mod" | "lib" | "main") => parts.saturating_sub(1),
        _ => parts,
    }
}

/// The first names of the path or of the group of paths that begins at `at`.
fn heads(code: &str, at: usize, modules: &mut Vec<(usize, String)>) {
    let Some(rest) = code.get(at..) else { return };
    if !rest.starts_with('{') {
        modules.push((at, word(rest)));
        return;
    }
    let mut depth = 0_usize;
    let mut expected = false;
    for (offset, c) in rest.char_indices() {
        match c {
            '{' => {
                depth += 1;
                expected = depth == 1;
            }
            '}' if depth == 1 => return,
            '}' => depth -= 1,
            ',' => expected = depth == 1,
            c if expected && !c.is_whitespace() => {
                expected = false;
                modules.push((at + offset, word(rest.get(offset..).unwrap_or_default())));
            }
            _ => {}
        }
    }
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str, inside: &str) -> Vec<String> {
        named(code, Path::new(inside)).into_iter().map(|(_, module)| module).collect()
    }

    #[test]
    fn single_paths_groups_and_paths_in_code() {
        assert_eq!(found("use crate::pool::Pool;", "route/mod.rs"), ["pool"]);
        assert_eq!(
            found("use crate::{\n    api::{facts, of},\n    pool,\n    types::Api,\n};", "route/mod.rs"),
            ["api", "pool", "types"]
        );
        assert_eq!(found("let x = crate::prefix::seed(&[]);", "route/mod.rs"), ["prefix"]);
        assert_eq!(found("pub(crate) fn f() {}", "route/mod.rs"), [""; 0]);
    }

    #[test]
    fn super_that_leads_to_the_root_names_another_module() {
        assert_eq!(found("use super::pool;", "route.rs"), ["pool"]);
        assert_eq!(found("use super::pool;", "route/mod.rs"), ["pool"]);
        assert_eq!(found("use super::super::pool;", "route/score.rs"), ["pool"]);
        assert_eq!(found("use super::score;", "route/pick.rs"), [""; 0]);
    }
}
