//! Plain tables: columns as wide as their widest cell.

/// Lays rows out in columns, two blanks apart; the first row is the head. Numbers stand right.
pub(crate) fn table(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    rows.iter()
        .map(|row| {
            let cells = row
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(i, (cell, width))| {
                    if i + 1 == columns && columns > 2 {
                        // The last column holds words.
                        return cell.clone();
                    }
                    let is_number = cell
                        .chars()
                        .next()
                        .is_some_and(|c| c.is_ascii_digit() || "+−±—".contains(c));
                    if is_number {
                        format!("{cell:>width$}")
                    } else {
                        format!("{cell:<width$}")
                    }
                });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_right_words_left() {
        let cell = |row: &[&str]| row.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>();
        let seen = table(&[
            cell(&["step", "score"]),
            cell(&["1", "71.8%"]),
            cell(&["12", "—"]),
        ]);
        assert_eq!(
            table(&[cell(&["a", "b", "why"]), cell(&["1", "2", "3 were lost"])]),
            ["a  b  why", "1  2  3 were lost"]
        );
        assert_eq!(seen, ["step  score", "   1  71.8%", "  12      —"]);
    }
}
