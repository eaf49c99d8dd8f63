//! Finds the kernels of a source, without a parser: `extern "C" __global__ ... name(`, and its `extern __shared__` arrays.

/// A kernel and the first argument of its `__launch_bounds__`, if it has one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) max_threads: Option<String>,
}

/// All kernels, in their order. Declarations without a body count as well, so there must be none.
pub(crate) fn kernels(source: &str) -> Vec<Found> {
    let text = without_comments(source);
    let mut found = Vec::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("__global__") {
        let is_extern = rest[..at].trim_end().ends_with("extern \"C\"");
        rest = &rest[at + "__global__".len()..];
        if is_extern && let Some(kernel) = kernel(rest) {
            found.push(kernel);
        }
    }
    found
}

/// Names of the arrays of dynamic shared memory, each once.
pub(crate) fn dynamic_arrays(source: &str) -> Vec<String> {
    let text = without_comments(source);
    let mut names: Vec<String> = Vec::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("__shared__") {
        let is_extern = rest[..at].trim_end().ends_with("extern");
        rest = &rest[at + "__shared__".len()..];
        let name = rest.split(['[', ';']).next().map_or("", |declaration| last_word(declaration));
        if is_extern && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Parses the text behind `__global__`: attributes and a type, then the name in front of the list of parameters.
fn kernel(mut rest: &str) -> Option<Found> {
    let mut max_threads = None;
    loop {
        let open = rest.find('(')?;
        let name = last_word(&rest[..open]);
        if !name.starts_with("__") {
            return Some(Found { name: name.to_owned(), max_threads });
        }
        let close = open + closing(&rest[open..])?;
        if name == "__launch_bounds__" {
            max_threads = Some(first_argument(&rest[open + 1..close]).trim().to_owned());
        }
        rest = &rest[close + 1..];
    }
}

fn last_word(text: &str) -> &str {
    let text = text.trim_end();
    let start = text.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    &text[start..]
}

/// Where the bracket that opens `text` is closed.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn first_argument(list: &str) -> &str {
    let mut depth = 0i32;
    for (at, c) in list.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => return &list[..at],
            _ => {}
        }
    }
    list
}

fn without_comments(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("//").into_iter().chain(rest.find("/*")).min() {
        text.push_str(&rest[..at]);
        text.push(' ');
        let end = if rest[at..].starts_with("//") { "\n" } else { "*/" };
        let Some(length) = rest[at + 2..].find(end) else { return text };
        let after = at + 2 + length;
        // The end of the line stays: it separates words.
        rest = if end == "\n" { &rest[after..] } else { &rest[after + 2..] };
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source: &str) -> Vec<(String, Option<String>)> {
        kernels(source).into_iter().map(|kernel| (kernel.name, kernel.max_threads)).collect()
    }

    #[test]
    fn kernels_are_found_with_their_bounds() {
        let source = "extern \"C\" __global__ void plain(int* a) {}\n\
            extern \"C\" __global__ void __launch_bounds__(256) bounded(int (*f)(int)) {}\n\
            extern \"C\" __global__ void\n__launch_bounds__(MOST(8, 2) * 32, 4) __maxnreg__(64)\nlong_one(void) {}\n\
            extern \"C\" __global__ __launch_bounds__(32) void early() {}";
        let expected = [
            ("plain", None),
            ("bounded", Some("256")),
            ("long_one", Some("MOST(8, 2) * 32")),
            ("early", Some("32")),
        ];
        assert_eq!(
            found(source),
            expected.map(|(name, bounds)| (name.to_owned(), bounds.map(str::to_owned)))
        );
    }

    #[test]
    fn comments_and_other_functions_are_no_kernels() {
        let source = "// extern \"C\" __global__ void a() {}\n/* extern \"C\" __global__ void b() {} */\n\
            __global__ void c() {}\nextern \"C\" __device__ void d() {} // no end of line";
        assert_eq!(found(source), []);
    }

    #[test]
    fn dynamic_arrays_are_found_once() {
        let source = "__shared__ int fixed[4]; extern __shared__ uint4 all[];\n\
            extern __shared__ __align__(16) unsigned char bytes []; { extern __shared__ uint4 all[]; }";
        assert_eq!(dynamic_arrays(source), ["all", "bytes"]);
    }
}
