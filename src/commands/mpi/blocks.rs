//! What launchers write in blocks, when processes end badly: kept, as it says who was the first.

/// Tells a launcher's notices from what ranks say.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// Lines of notices, in order.
    pub(super) notices: Vec<String>,
    is_inside: bool,
}

/// How the lines begin by which notices are told that stand in no block.
const ALONE: [&str; 6] = [
    "mpirun noticed",
    "prterun noticed",
    "YOUR APPLICATION TERMINATED",
    "This typically refers to a problem with your application",
    "Please see the FAQ page for debugging suggestions",
    "[mpiexec@",
];

impl Blocks {
    /// Takes a line; `true` if it is a rank's, and to be shown.
    pub(super) fn take(&mut self, line: &str) -> bool {
        let text = line.trim_end();
        let is_ruler = text.len() >= 40 && ['-', '='].iter().any(|&dash| text.chars().all(|c| c == dash));
        if is_ruler {
            self.is_inside = !self.is_inside;
            return false;
        }
        if self.is_inside || ALONE.iter().any(|begin| text.starts_with(begin)) {
            self.notices.push(text.trim_start_matches("= ").trim_start_matches('=').to_owned());
            return false;
        }
        true
    }

    /// The notices as one text, in which no line is wrapped.
    pub(super) fn text(&self) -> String {
        let words = self.notices.iter().flat_map(|line| line.split_whitespace());
        words.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_told_from_what_ranks_say() {
        let said = "table of rank 0\n\
            --------------------------------------------------------------------------\n\
            prterun noticed that process rank 2 with PID 26362 on node vm exited on\n\
            signal 9 (Killed).\n\
            --------------------------------------------------------------------------\n\
            error: rank 1 says\n";
        let mut blocks = Blocks::default();
        let shown: Vec<&str> = said.lines().filter(|line| blocks.take(line)).collect();
        assert_eq!(shown, ["table of rank 0", "error: rank 1 says"]);
        let text = blocks.text();
        assert_eq!(
            text,
            "prterun noticed that process rank 2 with PID 26362 on node vm exited on signal 9 (Killed)."
        );
    }
}
