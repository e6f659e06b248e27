//! Frames as a terminal shows them, compared with `tests/golden/tui`; `GOLDEN=write` writes them.

use std::path::Path;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use ratatui::text::{Line, Text};
use skillopt_coordinator::read_model::{
    ForecastRow, Headline, LiftRow, NoticeRow, Overview, ProviderRow, RunLine, RunRow, RunView,
    StepRow, SweepLine, TestRow, TokenRow, Verdict, WaitReason, WorkerRow,
};

use super::chart::chart;
use super::*;

const PLAIN: Look = Look {
    has_colour: false,
    has_unicode: true,
};
const ASCII: Look = Look {
    has_colour: false,
    has_unicode: false,
};
const COLOUR: Look = Look {
    has_colour: true,
    has_unicode: true,
};
const SIZES: [Size; 3] = [size(60, 16), size(100, 30), size(200, 60)];
/// 14:32:07 on some day.
const NOW: u64 = 1_735_655_527_000;

const fn size(columns: u16, rows: u16) -> Size {
    Size { columns, rows }
}

/// Draws lines as the program does, and reads the screen.
fn screen(lines: Vec<Line<'static>>, size: Size) -> String {
    let backend = TestBackend::new(size.columns, size.rows);
    let mut terminal = Terminal::new(backend).unwrap();
    terminal
        .draw(|frame| frame.render_widget(Text::from(lines), frame.area()))
        .unwrap();
    let buffer = terminal.backend().buffer();
    let rows = (0..size.rows).map(|y| {
        let cells = (0..size.columns).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned() + "\n"
    });
    rows.collect()
}

#[track_caller]
fn golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/tui/{name}.txt"));
    if std::env::var("GOLDEN").is_ok_and(|v| v == "write") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        return;
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        want == text,
        "{}\nwanted:\n{want}\nseen:\n{text}",
        path.display()
    );
}

/// A run of `steps` steps, each judged by its letter: `a`ccepted, `r`efused, `c`annot tell,
/// `s`kipped, `t`aken without gate.
fn view(letters: &str, total: u64) -> RunView {
    let mut view = RunView::new("3f9c1a");
    view.run.gate = true;
    view.run.baseline = Some(0.624);
    view.run.steps_total = Some(total);
    let (mut kept, mut best) = (0.624, 0.624_f64);
    for (i, letter) in letters.chars().enumerate() {
        let wave = [0.011, -0.006, 0.019, 0.004][i % 4];
        let (action, score) = match letter {
            'a' => ("accept_new_best", Some(kept + 0.031)),
            'r' => ("reject", Some(kept - 0.02 - wave)),
            'c' => ("cannot_tell", Some(kept + 0.009)),
            't' => ("force_accept", None),
            _ => ("skip_no_patches", None),
        };
        let change = score.map(|score| score - kept);
        if letter == 'a' {
            kept = score.unwrap();
        }
        best = best.max(kept);
        view.steps.push(StepRow {
            step: i as u64 + 1,
            epoch: i as u64 / 10 + 1,
            action: action.to_owned(),
            verdict: Verdict::of(action),
            score,
            change,
            kept: Some(kept),
            best: Some(best),
            rollout: Some(0.5),
            rollout_n: Some(40),
            patches: Some(3),
            edits: Some(2),
            edit_budget: Some(4),
            cost_usd: Some(2.06 + i as f64 / 10.0),
            took_s: Some(600.0 + i as f64),
            tokens: TokenRow {
                calls: 60,
                prompt_tokens: 90_000,
                completion_tokens: 5_000,
                ..TokenRow::default()
            },
            ..StepRow::default()
        });
    }
    view.run.kept = Some(kept);
    view.run.best = Some(best);
    view.run.best_step = Some(0);
    view.run.steps_done = letters.chars().count() as u64;
    view
}

fn running() -> Screen {
    let mut view = view("racrarcrarcrs", 40);
    view.run.cost_usd = Some(41.2);
    view.run.cap_usd = Some(120.0);
    view.run.forecast = Some(ForecastRow {
        steps: 13,
        tokens: Some(3_800_000),
        cost_usd: Some(127.0),
        left_s: Some(21_800.0),
    });
    Screen {
        view,
        name: "invoice-extractor".to_owned(),
        stage: Some(("step 14, rollout".to_owned(), 12, 40)),
        waits: Some(vec![WaitReason {
            code: "barrier".to_owned(),
            words: "on earlier jobs of this step".to_owned(),
            help: "nothing to do".to_owned(),
            count: 5,
            oldest_ms: 360_000,
        }]),
        at_ms: NOW,
        can_pause: true,
        selected: 1,
        ..Screen::default()
    }
}

fn overview() -> Overview {
    let wait = |code: &str, words: &str, help: &str, n| WaitReason {
        code: code.to_owned(),
        words: words.to_owned(),
        help: help.to_owned(),
        count: n,
        oldest_ms: n * 1_000,
    };
    let worker = |id: &str, state: &str, cause: Option<&str>, busy, slots, silent_ms| WorkerRow {
        worker: id.to_owned(),
        state: state.to_owned(),
        cause: cause.map(str::to_owned),
        slots: [("chat".to_owned(), slots)].into(),
        busy: [("chat".to_owned(), busy)].into(),
        jobs_done: 611,
        jobs_failed: 3,
        silent_ms,
        ..WorkerRow::default()
    };
    Overview {
        at_unix_ms: NOW,
        headline: Headline {
            first: "Work is moving, a third slower than it could.".to_owned(),
            second: "212 of 268 waiting jobs: azure eastus-2: tokens a minute, until 14:33:10."
                .to_owned(),
        },
        finished_a_minute: Some(35),
        finished_a_minute_before: Some(52.0),
        running: Some(96),
        slots: Some(168),
        waiting: Some(268),
        cost_usd_an_hour: Some(9.4),
        reserved_usd: Some(38.12),
        waits: vec![
            wait(
                "rate_limited",
                "azure eastus-2: tokens a minute, until 14:33:10",
                "waits by itself",
                212,
            ),
            wait("fair_share", "other runs go first", "nothing to do", 31),
            wait(
                "no_capability",
                "no live worker offers exec:claude-code",
                "start a worker of pool exec",
                18,
            ),
            wait(
                "barrier",
                "earlier jobs of the same step are out",
                "nothing to do",
                5,
            ),
            wait(
                "lease_expired",
                "worker w-11 stopped answering",
                "given to another",
                2,
            ),
        ],
        providers: vec![
            ProviderRow {
                account: "azure eastus-2".to_owned(),
                state: "throttled".to_owned(),
                in_flight: 8,
                in_flight_allowed: Some(8),
                in_flight_limit: Some(32),
                tokens_a_minute: 590_000,
                tokens_a_minute_limit: Some(600_000),
                throttled: 74,
                ..ProviderRow::default()
            },
            ProviderRow {
                account: "azure swedencentral".to_owned(),
                state: "well".to_owned(),
                in_flight: 32,
                in_flight_allowed: Some(32),
                in_flight_limit: Some(32),
                ..ProviderRow::default()
            },
        ],
        workers: vec![
            worker("w-09", "sick", Some("disk 98% full"), 0, 12, 2_000),
            worker("w-11", "lost", None, 2, 12, 50_000),
            worker("w-03", "draining", None, 5, 12, 1_000),
            worker("w-01", "well", None, 45, 66, 1_000),
            worker("w-02", "well", None, 44, 66, 4_000),
        ],
        runs: vec![
            RunLine {
                run: "a".to_owned(),
                name: "search-qa".to_owned(),
                state: "running".to_owned(),
                steps_done: 31,
                steps_total: Some(40),
                lift_points: Some(14.2),
            },
            RunLine {
                run: "b".to_owned(),
                name: "invoice-extractor".to_owned(),
                state: "paused (budget)".to_owned(),
                steps_done: 14,
                steps_total: Some(40),
                lift_points: None,
            },
        ],
        sweeps: vec![SweepLine {
            sweep: "s".to_owned(),
            name: "paper-52".to_owned(),
            state: "running".to_owned(),
            cells_done: 35,
            cells_total: 52,
            cells_in_trouble: 0,
        }],
        ..Overview::default()
    }
}

/// A run in each of the states that look different.
fn states() -> Vec<(&'static str, Screen)> {
    let finished = |state: &str, mut view: RunView| {
        view.run.state = state.to_owned();
        view.run.test = TestRow {
            baseline: Some(0.6),
            best: Some(0.7),
            last: Some(0.7),
            n: Some(200),
        };
        view.run.lift = Some(LiftRow {
            mean: 0.094,
            low: 0.031,
            high: 0.156,
            n: 200,
        });
        Screen {
            view,
            name: "outputs/first".to_owned(),
            at_ms: NOW,
            ..Screen::default()
        }
    };
    let mut new = Screen {
        name: "new".to_owned(),
        at_ms: NOW,
        ..Screen::default()
    };
    new.view = RunView::new("new");
    new.view.run.val_items = Some(200);
    new.view.run.baseline_in = Some(13);
    new.view.run.steps_total = Some(4);
    let mut paused = Screen {
        notice: Some(NoticeRow {
            state: "paused (provider)".to_owned(),
            cause: Some("`sim` rejected the credentials (HTTP 401)".to_owned()),
            at_unix_ms: Some(NOW - 720_000),
            fix: Some("set the key in the environment".to_owned()),
        }),
        kept: "13 of 40 steps and all answers so far".to_owned(),
        link: Some("No connection since 14:31:20 · trying again in 8 s".to_owned()),
        is_held: true,
        pane: Pane::Text {
            title: "step 12 · refused · what the candidate changes".to_owned(),
            lines: ["@@ -1,2 +1,2 @@", " # Skill", "-old rule", "+new rule"]
                .map(str::to_owned)
                .to_vec(),
        },
        ..running()
    };
    paused.view.run.state = "paused (provider)".to_owned();
    paused.stage = None;
    let mut forced = view("rat", 3);
    forced.run.gate = false;
    forced.steps[2].stale = true;
    vec![
        ("running", running()),
        ("paused", paused),
        ("new", new),
        ("improved", finished("improved", view("rara", 4))),
        ("no-gate", finished("worse at the end", forced)),
    ]
}

#[test]
fn frames_of_runs() {
    for (name, seen) in states() {
        for at in SIZES {
            let text = screen(frame_run(&seen, at, PLAIN), at);
            golden(&format!("run-{name}-{}x{}", at.columns, at.rows), &text);
        }
    }
    let at = SIZES[1];
    let text = screen(frame_run(&running(), at, ASCII), at);
    assert!(text.is_ascii(), "{text}");
    golden("run-running-ascii", &text);
}

#[test]
fn frames_of_the_cluster() {
    for at in SIZES {
        let lines = frame_overview(&overview(), "cluster", None, at, PLAIN);
        golden(
            &format!("cluster-{}x{}", at.columns, at.rows),
            &screen(lines, at),
        );
    }
    let lines = frame_overview(&overview(), "cluster", None, SIZES[1], ASCII);
    let text = screen(lines, SIZES[1]);
    assert!(text.is_ascii(), "{text}");
    golden("cluster-ascii", &text);
}

#[test]
fn what_has_no_room_is_counted() {
    let mut all = overview();
    all.workers.clear();
    all.runs = (0..30)
        .map(|i| RunLine {
            name: format!("run-{i}"),
            state: "running".to_owned(),
            ..RunLine::default()
        })
        .collect();
    all.slots = None;
    let text = screen(
        frame_overview(&all, "runs", None, SIZES[1], PLAIN),
        SIZES[1],
    );
    assert_eq!(text.matches("run-").count(), 25, "{text}");
    assert!(text.contains("… 5 more"), "{text}");
    let at = size(200, 40);
    let text = screen(frame_overview(&all, "runs", None, at, PLAIN), at);
    assert_eq!(text.matches("run-").count(), 30, "{text}");
}

#[test]
fn a_small_terminal_shows_three_lines() {
    for at in [size(59, 40), size(100, 15), size(10, 2), size(1, 1)] {
        for (_, seen) in states() {
            let lines = frame_run(&seen, at, PLAIN);
            assert!(lines.len() <= usize::from(at.rows).min(3));
        }
        assert!(frame_overview(&overview(), "cluster", None, at, PLAIN).len() <= 3);
    }
}

#[test]
fn no_line_is_longer_than_the_terminal_and_no_frame_higher() {
    for (columns, rows) in [
        (1, 1),
        (3, 40),
        (60, 16),
        (61, 17),
        (80, 24),
        (133, 50),
        (300, 90),
    ] {
        let at = size(columns, rows);
        for look in [PLAIN, ASCII, COLOUR] {
            for (_, seen) in states() {
                fits(&frame_run(&seen, at, look), at);
            }
            fits(
                &frame_overview(&overview(), "cluster", Some("away"), at, look),
                at,
            );
        }
    }
}

fn fits(lines: &[Line<'static>], at: Size) {
    assert!(lines.len() <= usize::from(at.rows));
    for line in lines {
        assert!(line.width() <= usize::from(at.columns), "{line}");
    }
}

#[test]
fn without_colour_no_cell_is_coloured() {
    for look in [PLAIN, COLOUR] {
        let lines = frame_run(&running(), SIZES[1], look);
        let colours = lines.iter().flat_map(|line| &line.spans);
        let has_any = colours.clone().any(|span| span.style.fg.is_some());
        assert_eq!(has_any, look.has_colour);
        // Of the 16 that every terminal has.
        assert!(
            colours
                .into_iter()
                .all(|span| !matches!(span.style.fg, Some(Color::Rgb(..) | Color::Indexed(_))))
        );
    }
}

#[test]
fn marks_of_the_chart_are_the_steps() {
    let long: String = (0..10_000)
        .map(|i| match i % 227 {
            0 => 'a',
            100 => 'c',
            3 => 's',
            _ => 'r',
        })
        .collect();
    // Scores stay below 1 however many are accepted.
    for letters in [
        "a",
        "ra",
        "racrarcrarcrsa",
        &"r".repeat(40),
        &"s".repeat(5),
        &long[..400],
        &long,
    ] {
        let mut view = view(letters, letters.len() as u64);
        for row in &mut view.steps {
            row.score = row.score.map(|s| s / 4.0);
            row.kept = row.kept.map(|s| s / 4.0);
        }
        view.run.baseline = view.run.baseline.map(|s| s / 4.0);
        view.run.kept = view.run.kept.map(|s| s / 4.0);
        view.run.best = view.run.best.map(|s| s / 4.0);
        let chart = chart(&view, 100, 20);
        assert_eq!(chart.marks.len(), view.steps.len());
        let (mut low, mut high) = (f64::MAX, f64::MIN);
        for score in view.steps.iter().filter_map(|row| row.score) {
            (low, high) = (low.min(score), high.max(score));
        }
        for (row, mark) in view.steps.iter().zip(&chart.marks) {
            assert_eq!(mark.verdict, row.verdict);
            assert_eq!(mark.row.is_some(), row.score.is_some());
            let Some(at) = mark.row else { continue };
            if row.verdict == Verdict::Accepted {
                assert_eq!(chart.seen(at, mark.column), '●', "step {}", row.step);
            }
            // A higher score stands higher, or in the same row.
            for (other, its) in view.steps.iter().zip(&chart.marks).take(50) {
                if let (Some(a), Some(b), Some(its)) = (row.score, other.score, its.row) {
                    assert!(a <= b || at <= its);
                }
            }
        }
        let lines: Vec<String> = chart
            .lines()
            .into_iter()
            .map(|row| row.drawn(100, PLAIN).to_string())
            .collect();
        let all = lines.join("\n");
        assert!(!all.contains("NaN"), "{all}");
        let drawn = |c: char| all.chars().filter(|seen| *seen == c).count();
        if letters.len() <= 80 {
            // Each has a column of its own, so each is seen.
            for verdict in Verdict::ALL {
                let n = chart.marks.iter().filter(|m| m.verdict == verdict).count();
                assert_eq!(drawn(verdict.mark()), n, "{}\n{all}", verdict.word());
            }
        } else {
            let accepted = letters.chars().filter(|c| *c == 'a').count();
            assert!(drawn('●') <= accepted && drawn('●') > 0);
            assert!(all.contains("refused drawn as ranges"), "{all}");
        }
    }
}

#[test]
fn one_flat_score_is_a_flat_line() {
    let mut view = view("rrrrrr", 6);
    for row in &mut view.steps {
        (row.score, row.kept) = (Some(0.0), Some(0.0));
    }
    view.run.baseline = Some(0.0);
    (view.run.kept, view.run.best) = (Some(0.0), Some(0.0));
    let chart = chart(&view, 80, 8);
    let row = chart.marks[0].row.unwrap();
    assert!(chart.marks.iter().all(|mark| mark.row == Some(row)));
    let text: Vec<String> = chart
        .lines()
        .into_iter()
        .map(|row| row.drawn(80, PLAIN).to_string())
        .collect();
    assert!(text[row].starts_with("  0 ┼━"), "{text:?}");
    assert!(text[row].ends_with("0.0"), "{text:?}");
}

#[test]
fn text_of_others_commands_no_terminal() {
    let evil = [
        "\x1b[2J\x1b]0;owned\x07",
        "\u{9b}31m",
        "a\u{202e}b\u{2066}c",
        "zero\u{200b}width\u{feff}",
        "two\nlines\r\nand\tmore\0",
        "</pre><script>alert(1)</script>",
        "漢字 \u{1f642} e\u{301}",
        "=cmd|' /C calc'!A0",
        "../../etc/passwd",
    ];
    let long = "x".repeat(1_000_000);
    for text in evil.into_iter().chain([long.as_str()]) {
        let mut seen = running();
        seen.name = text.to_owned();
        seen.view.run.state = text.to_owned();
        seen.view.steps[12].action = text.to_owned();
        seen.message = text.to_owned();
        seen.link = Some(text.to_owned());
        seen.kept = text.to_owned();
        seen.stage = Some((text.to_owned(), 1, 2));
        seen.notice = Some(NoticeRow {
            state: text.to_owned(),
            cause: Some(text.to_owned()),
            fix: Some(text.to_owned()),
            at_unix_ms: None,
        });
        seen.pane = Pane::Text {
            title: text.to_owned(),
            lines: vec![text.to_owned()],
        };
        let mut all = overview();
        all.headline.first = text.to_owned();
        all.headline.second = text.to_owned();
        all.waits[0].words = text.to_owned();
        all.waits[0].help = text.to_owned();
        all.waits[1].code = text.to_owned();
        all.providers[0].account = text.to_owned();
        all.providers[0].state = text.to_owned();
        all.workers[0].worker = text.to_owned();
        all.workers[0].state = text.to_owned();
        all.workers[0].cause = Some(text.to_owned());
        all.runs[0].name = text.to_owned();
        all.runs[0].state = text.to_owned();
        all.sweeps[0].name = text.to_owned();
        for look in [PLAIN, ASCII] {
            for at in SIZES {
                let frames = [
                    frame_run(&seen, at, look),
                    frame_overview(&all, text, Some(text), at, look),
                ];
                for lines in frames {
                    fits(&lines, at);
                    let shown: String = lines.iter().map(ToString::to_string).collect();
                    let bad = |c: char| {
                        c.is_control()
                            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
                                | '\u{2066}'..='\u{2069}' | '\u{feff}')
                    };
                    assert!(!shown.contains(bad), "{text:?} in {shown:?}");
                }
            }
        }
    }
}

#[test]
fn what_is_unknown_is_no_number() {
    let seen = Screen {
        view: RunView {
            run: RunRow {
                state: "running".to_owned(),
                ..RunRow::default()
            },
            ..RunView::default()
        },
        ..Screen::default()
    };
    let text = screen(frame_run(&seen, SIZES[1], PLAIN), SIZES[1]);
    assert!(text.contains("score —   price unknown"), "{text}");
    for wrong in ["NaN", "null", "$0", "undefined", "None"] {
        assert!(!text.contains(wrong), "{text}");
    }
    let lines = frame_overview(&Overview::default(), "runs", None, SIZES[1], PLAIN);
    let text = screen(lines, SIZES[1]);
    assert!(!text.contains("slots") && !text.contains("$0"), "{text}");
}
