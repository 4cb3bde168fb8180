//! That nothing can be changed in a ledger, or slipped into one, without being found.

use super::*;

#[tokio::test]
async fn c23_the_rest_of_a_damaged_ledger_is_shown_and_nothing_is_cut() {
    let mut lines = golden_lines();
    let damaged = lines[3].replace(':', ";");
    lines[3] = &damaged;
    let content = lines.join("\n") + "\n";
    let (dir, store) = relaxed();
    let run_id = id(GOLDEN_ID);
    put(&dir, content.as_bytes());
    let page = store.read(&run_id, 1, usize::MAX).unwrap();
    assert_eq!(
        (page.entries.len(), page.records().count()),
        (lines.len(), lines.len() - 1)
    );
    let byte = lines[..3].iter().map(|line| line.len() + 1).sum::<usize>();
    let named = |line: u64, at: u64| line == 4 && at == u64::try_from(byte).unwrap();
    assert!(matches!(&page.entries[3], Entry::Damaged(corruption)
        if named(corruption.line, corruption.byte)));
    let corruption = store.verify(&run_id, None).unwrap().corruption.unwrap();
    assert!(named(corruption.line, corruption.byte), "{corruption}");
    let refused = store.recover(&run_id).await;
    assert!(
        matches!(refused, Err(StoreError::Corrupt { corruption, .. })
        if named(corruption.line, corruption.byte))
    );
    assert_eq!(fs::read_to_string(store.path_of(&run_id)).unwrap(), content);
}

#[test]
fn no_flipped_bit_goes_unnoticed() {
    let (dir, store) = relaxed();
    let run_id = id(GOLDEN_ID);
    let lines = golden_lines();
    let start_of = |n: usize| lines[..n].iter().map(|line| line.len() + 1).sum::<usize>();
    for line in [0, 3, lines.len() - 1] {
        for at in start_of(line)..start_of(line + 1) {
            for bit in 0..8 {
                let mut bytes = GOLDEN.as_bytes().to_vec();
                bytes[at] ^= 1 << bit;
                put(&dir, &bytes);
                let report = store.verify(&run_id, Some(golden_head())).unwrap();
                let verdict = report.verdict();
                assert!(
                    matches!(verdict, Verdict::Corrupt | Verdict::Torn),
                    "{at} {bit} {verdict}"
                );
            }
        }
    }
}

#[tokio::test]
async fn c28_text_that_looks_like_an_event_stays_text() {
    let (_dir, store) = relaxed();
    let run_id = RunId::generate();
    let recorder = start(&store, &run_id).await;
    let forged = format!(
        "x\"}}}}\n{}\n{{\"v\":1,\"source\":\"host\"",
        golden_lines()[5]
    );
    let forged = forged.replace(GOLDEN_ID, run_id.as_str());
    recorder.record(Origin::Guest, &log(&forged)).unwrap();
    let content = fs::read_to_string(store.path_of(&run_id)).unwrap();
    assert_eq!(content.lines().count(), 2);
    let page = store.read(&run_id, 1, usize::MAX).unwrap();
    let records: Vec<_> = page.records().collect();
    assert_eq!((records.len(), records[1].origin), (2, Origin::Guest));
    assert_eq!(records[1].event(), log(&forged));
}

#[test]
fn c29_every_change_to_a_chained_ledger_is_found_at_its_line() {
    let lines: Vec<String> = golden_lines()
        .iter()
        .map(|line| (*line).to_owned())
        .collect();
    let changed = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines = lines.clone();
        change(&mut lines);
        lines
    };
    let edit = |line: &mut String, from: &str, to: &str| {
        assert!(line.contains(from));
        *line = line.replace(from, to);
    };
    let (dir, store) = relaxed();
    let bad_line = |content: &[String]| {
        put(&dir, (content.join("\n") + "\n").as_bytes());
        let report = store.verify(&id(GOLDEN_ID), Some(golden_head())).unwrap();
        report.corruption.map(|corruption| corruption.line)
    };
    assert_eq!(bad_line(&lines), None);
    for (name, content, expected) in [
        (
            "edit a payload",
            changed(&|l| edit(&mut l[2], "disk full", "disk fool")),
            3,
        ),
        (
            "edit the first line",
            changed(&|l| edit(&mut l[0], "triage", "triaje")),
            1,
        ),
        (
            "edit the last line",
            changed(&|l| edit(&mut l[6], "\"ok\"", "\"error\"")),
            7,
        ),
        (
            "edit an origin",
            changed(&|l| edit(&mut l[3], "\"guest\"", "\"host\"")),
            4,
        ),
        (
            "edit a link",
            changed(&|l| {
                l[3] = l[3]
                    .replace("\"prev\":\"", "\"prev\":\"0")
                    .replace("0\"}", "\"}")
            }),
            4,
        ),
        ("delete", changed(&|l| drop(l.remove(3))), 4),
        ("delete the first", changed(&|l| drop(l.remove(0))), 1),
        ("swap", changed(&|l| l.swap(2, 3)), 3),
        ("insert a copy", changed(&|l| l.insert(3, l[2].clone())), 4),
        ("append a copy", changed(&|l| l.push(l[6].clone())), 8),
        ("cut the last", changed(&|l| l.truncate(6)), 7),
        ("cut the last five", changed(&|l| l.truncate(2)), 3),
    ] {
        let found = bad_line(&content);
        // A link that no longer has 64 digits makes its line unreadable; that is its own line too.
        assert_eq!(found, Some(expected), "{name}");
    }
}
