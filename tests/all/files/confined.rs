//! What is to be read only stays as it is, and what is outside stays unseen.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{Place, Ran};

/// A call, how it is answered, and, if that is a denial, the start of its rule and what was wanted.
type Row = (Value, &'static str, Option<(&'static str, &'static str)>);

const READ_ONLY: &str = "not granted";
const OUT: &str = "the path leads out";
const LINK: &str = "a link must be relative";

fn open(dir: &str, path: &str, flags: &str) -> Value {
    json!({ "call": "open", "dir": dir, "path": path, "flags": flags })
}

fn on(call: &str, dir: &str, path: &str) -> Value {
    json!({ "call": call, "dir": dir, "path": path })
}

fn to(call: &str, from: (&str, &str), to: (&str, &str)) -> Value {
    let mut value = json!({
        "call": call, "dir": from.0, "path": from.1, "to_dir": to.0, "to": to.1,
    });
    if call == "link" {
        value["follow"] = json!(false);
    }
    value
}

fn look(call: &str, dir: &str, path: &str, follow: bool) -> Value {
    json!({ "call": call, "dir": dir, "path": path, "follow": follow })
}

fn link(dir: &str, target: &str, path: &str) -> Value {
    json!({ "call": "symlink", "dir": dir, "target": target, "path": path })
}

/// Makes the calls in one run and compares answers and denials, in their order.
#[track_caller]
fn check(place: &Place, rows: &[Row]) -> Ran {
    let calls: Vec<&Value> = rows.iter().map(|(call, ..)| call).collect();
    let ran = place.run(&json!(calls));
    assert_eq!(ran.answers.len(), rows.len(), "{}", ran.document);
    let mut denied = ran.denied.iter();
    for ((call, expected, refused), answer) in rows.iter().zip(&ran.answers) {
        let answer = answer.as_str().map_or(answer.to_string(), str::to_owned);
        assert_eq!(answer, *expected, "{call}");
        let Some((rule, wanted)) = refused else {
            continue;
        };
        let event = denied
            .next()
            .unwrap_or_else(|| panic!("no denial of {call}"));
        let event_rule = event["rule"].as_str().unwrap();
        assert!(event_rule.starts_with(rule), "{call}: {event}");
        assert_eq!(event["wanted"], *wanted, "{call}: {event}");
        let access = if *rule == READ_ONLY || wanted.contains(" /rw") {
            "fs:rw:"
        } else {
            "fs:ro:"
        };
        let capability = event["capability"].as_str().unwrap();
        assert!(capability.starts_with(access), "{call}: {event}");
    }
    assert_eq!(denied.next(), None);
    ran
}

fn read_only(call: Value, wanted: &'static str) -> Row {
    (call, "!not-permitted", Some((READ_ONLY, wanted)))
}

fn changes_names() -> Vec<Row> {
    let no = read_only;
    vec![
        no(
            look("set_times_at", "/ro", "kept", true),
            "set the times of /ro/kept",
        ),
        no(on("mkdir", "/ro", "d"), "make the folder /ro/d"),
        no(on("rmdir", "/ro", "sub"), "remove the folder /ro/sub"),
        no(on("unlink", "/ro", "kept"), "remove /ro/kept"),
        no(
            to("rename", ("/ro", "kept"), ("/ro", "x")),
            "rename /ro/kept",
        ),
        no(
            to("rename", ("/ro", "kept"), ("/rw", "x")),
            "rename /ro/kept",
        ),
        no(
            to("rename", ("/rw", "mine"), ("/ro", "kept")),
            "rename /ro/kept",
        ),
        no(to("link", ("/ro", "kept"), ("/rw", "x")), "link /ro/kept"),
        no(to("link", ("/rw", "mine"), ("/ro", "x")), "link /ro/x"),
        no(link("/ro", "kept", "x"), "make the link /ro/x"),
    ]
}

/// Case C11: not a byte, a name, a link or a time of what is to be read only changes, and every try is on
/// record.
#[test]
fn c11_what_is_read_only_cannot_be_changed() {
    let place = Place::new();
    let before = (place.state("ro"), place.state("outside"));
    let no = read_only;
    let file = |call: &str| json!({ "call": call, "file": "k" });
    let mut open_k = open("/ro", "kept", "r");
    open_k["name"] = json!("k");
    let mut open_sub = open("/ro", "sub", "rdm");
    open_sub["name"] = json!("s");
    let mut set_size = file("set_size");
    set_size["size"] = json!(0);
    let mut write = file("write");
    write["text"] = json!("x");
    write["offset"] = json!(0);
    let mut stream = file("write_stream");
    stream["bytes"] = json!(1);
    stream["offset"] = json!(0);
    check(
        &place,
        &[
            no(open("/ro", "kept", "w"), "open for writing /ro/kept"),
            no(open("/ro", "kept", "rw"), "open for writing /ro/kept"),
            no(open("/ro", "kept", "rt"), "open for writing /ro/kept"),
            no(open("/ro", "kept", "c"), "open for writing /ro/kept"),
            no(open("/ro", "new", "cx"), "open for writing /ro/new"),
            no(open("/ro", "sub/new", "c"), "open for writing /ro/sub/new"),
            (open_k, "ok", None),
            no(set_size, "set the size of /ro/kept"),
            no(write, "write /ro/kept"),
            no(stream, "write /ro/kept"),
            no(file("append_stream"), "append to /ro/kept"),
            no(file("set_times"), "set the times of /ro/kept"),
            no(
                json!({ "call": "set_times", "file": "/ro" }),
                "set the times of /ro",
            ),
            (open_sub, "ok", None),
            no(open("s", "deep", "w"), "open for writing /ro/sub/deep"),
            no(on("unlink", "s", "deep"), "remove /ro/sub/deep"),
            // It is to be read, after all.
            (open("/ro", "sub/deep", "r"), "ok", None),
            (json!({ "call": "read", "file": "k" }), "ro/kept", None),
            (
                json!({ "call": "read_stream", "file": "k" }),
                "ro/kept",
                None,
            ),
        ],
    );
    check(&place, &changes_names());
    assert_eq!((place.state("ro"), place.state("outside")), before);
}

fn leads_out(call: Value, wanted: &'static str) -> Row {
    (call, "!not-permitted", Some((OUT, wanted)))
}

fn looks_outside() -> Vec<Row> {
    let no = leads_out;
    vec![
        no(open("/ro", "..", "rd"), "open /ro/.."),
        no(
            open("/ro", "../outside/secret", "r"),
            "open /ro/../outside/secret",
        ),
        no(open("/ro", "../ro/kept", "r"), "open /ro/../ro/kept"),
        no(
            open("/ro", "sub/../../outside/secret", "r"),
            "open /ro/sub/../../outside/secret",
        ),
        no(
            open("/ro", "./.././outside/secret", "r"),
            "open /ro/./.././outside/secret",
        ),
        no(open("/ro", "/etc/passwd", "r"), "open /etc/passwd"),
        no(open("/ro", "/ro/kept", "r"), "open /ro/kept"),
        no(open("/ro", "//", "rd"), "open //"),
        no(open("/ro", "link", "fr"), "open /ro/link"),
        no(open("/ro", "far", "fr"), "open /ro/far"),
        no(open("/ro", "door", "frd"), "open /ro/door"),
        no(open("/ro", "door/secret", "r"), "open /ro/door/secret"),
        no(
            open("/ro", "sub/../door/secret", "fr"),
            "open /ro/sub/../door/secret",
        ),
        no(look("stat", "/ro", "..", false), "look at /ro/.."),
        no(look("stat", "/ro", "link", true), "look at /ro/link"),
        no(
            look("hash", "/ro", "door/secret", true),
            "look at /ro/door/secret",
        ),
        no(on("readlink", "/ro", "far"), "read the link /ro/far"),
        no(
            on("readlink", "/ro", "../rw/link"),
            "read the link /ro/../rw/link",
        ),
    ]
}

fn changes_outside() -> Vec<Row> {
    let no = leads_out;
    vec![
        no(
            open("/rw", "../outside/new", "cw"),
            "open /rw/../outside/new",
        ),
        no(open("/rw", "door/new", "cw"), "open /rw/door/new"),
        no(open("/rw", "link", "fwt"), "open /rw/link"),
        no(on("mkdir", "/rw", "../d"), "make the folder /rw/../d"),
        no(on("mkdir", "/rw", "door/d"), "make the folder /rw/door/d"),
        no(
            on("rmdir", "/rw", "../outside"),
            "remove the folder /rw/../outside",
        ),
        no(on("unlink", "/rw", "door/secret"), "remove /rw/door/secret"),
        no(on("unlink", "/rw", "../ro/kept"), "remove /rw/../ro/kept"),
        no(
            look("set_times_at", "/rw", "link", true),
            "set the times of /rw/link",
        ),
        no(
            to("rename", ("/rw", "door/secret"), ("/rw", "x")),
            "rename /rw/door/secret",
        ),
        no(
            to("rename", ("/rw", "mine"), ("/rw", "../outside/x")),
            "rename /rw/../outside/x",
        ),
        no(
            to("rename", ("/rw", "mine"), ("/rw", "door/secret")),
            "rename /rw/door/secret",
        ),
        no(
            to("link", ("/rw", "../outside/secret"), ("/rw", "x")),
            "link /rw/../outside/secret",
        ),
        no(
            to("link", ("/rw", "mine"), ("/rw", "door/x")),
            "link /rw/door/x",
        ),
    ]
}

/// Case C11: no spelling of a path leads out, and no link that was there before.
#[test]
fn c11_no_path_and_no_link_leads_out() {
    let place = Place::new();
    let before = (place.state("outside"), place.state("ro"));
    check(&place, &looks_outside());
    check(&place, &changes_outside());
    assert_eq!((place.state("outside"), place.state("ro")), before);
}

/// Case C11: a guest makes no link that leads up, for itself or for anybody who comes later, and no link
/// to another's file gains it more than it had.
#[test]
fn c11_links_that_a_guest_makes_lead_down() {
    let place = Place::new();
    let before = (place.state("outside"), place.state("ro"));
    let no = |target: &str| -> Row {
        let refused = Some((LINK, "make the link /rw/x"));
        (link("/rw", target, "x"), "!not-permitted", refused)
    };
    let mut create = open("/rw", "sub/new", "cw");
    create["name"] = json!("n");
    check(
        &place,
        &[
            no("../outside/secret"),
            no("sub/../../outside"),
            no(".."),
            no("/"),
            no("/etc/passwd"),
            (link("/rw", "mine", "down"), "ok", None),
            (open("/rw", "down", "fr"), "ok", None),
            (open("/rw", "down", "r"), "!loop", None),
            (to("link", ("/rw", "mine"), ("/rw", "twice")), "ok", None),
            // A hard link to a symbolic one is a symbolic one.
            (to("link", ("/rw", "down"), ("/rw", "again")), "ok", None),
            (open("/rw", "again", "fr"), "ok", None),
            (
                to("rename", ("/rw", "again"), ("/rw", "sub/on")),
                "ok",
                None,
            ),
            (create, "ok", None),
            (
                json!({ "call": "write", "file": "n", "text": "new", "offset": 0 }),
                "3",
                None,
            ),
        ],
    );
    assert_eq!((place.state("outside"), place.state("ro")), before);
    assert_eq!(fs::read_to_string(place.path("rw/sub/new")).unwrap(), "new");
}

/// Case C11: a link that leads up, and was there before, stays where it is: two folders higher it would
/// lead out, for whoever follows it there.
#[test]
fn c11_a_link_that_leads_up_is_not_given_another_place() {
    let place = Place::new();
    symlink("../mine", place.path("rw/sub/up")).unwrap();
    let before = (place.state("rw"), place.state("outside"));
    let no = |call: &str, path: &str, wanted: &'static str| -> Row {
        let call = to(call, ("/rw", path), ("/rw", "x"));
        (call, "!not-permitted", Some((LINK, wanted)))
    };
    check(
        &place,
        &[
            no("rename", "sub/up", "rename /rw/sub/up"),
            no("rename", "sub/up/", "rename /rw/sub/up/"),
            no("rename", "sub/./up/.", "rename /rw/sub/./up/."),
            no("rename", "sub/../link", "rename /rw/sub/../link"),
            no("rename", "far", "rename /rw/far"),
            no("rename", "door", "rename /rw/door"),
            no("link", "sub/up", "link /rw/sub/up"),
            no("link", "far", "link /rw/far"),
        ],
    );
    assert_eq!((place.state("rw"), place.state("outside")), before);
}

/// Mistakes are no denials: they are told with their own code and leave no event.
#[test]
fn a_mistake_is_told_as_one() {
    let place = Place::new();
    let long = "n".repeat(300);
    let deep = "d/".repeat(3_000);
    let rows: Vec<Row> = vec![
        (open("/rw", "", "r"), "!no-entry", None),
        (open("/rw", "none", "r"), "!no-entry", None),
        (open("/rw", "mine", "rd"), "!not-directory", None),
        (open("/rw", "mine/x", "r"), "!not-directory", None),
        (open("/rw", "sub", "w"), "!is-directory", None),
        (open("/rw", "sub", "cd"), "!invalid", None),
        (open("/rw", "mine", "cx"), "!exist", None),
        (open("/rw", "a\0b", "r"), "!invalid", None),
        (open("/rw", &long, "r"), "!name-too-long", None),
        (open("/rw", &deep, "r"), "!name-too-long", None),
        (on("mkdir", "/rw", &long), "!name-too-long", None),
        (on("unlink", "/rw", "none"), "!no-entry", None),
        (on("rmdir", "/rw", "mine"), "!not-directory", None),
        (on("readlink", "/rw", "mine"), "!invalid", None),
        // The operating system does not permit hard links to folders; no policy is in the way.
        (
            to("link", ("/rw", "sub"), ("/rw", "x")),
            "!not-permitted",
            None,
        ),
    ];
    check(&place, &rows);
}

/// Somebody on the host swaps a file for a link that leads out, again and again, while the guest opens
/// it: it sees the inside or nothing.
#[test]
fn c11_a_swap_between_check_and_use_shows_nothing_of_the_outside() {
    let place = Place::new();
    let (inside, out) = (place.path("inside"), place.path("out"));
    let target = place.path("rw/target");
    let done = AtomicBool::new(false);
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                fs::write(&inside, "inside").unwrap();
                fs::rename(&inside, &target).unwrap();
                symlink("../outside/secret", &out).unwrap();
                fs::rename(&out, &target).unwrap();
            }
        });
        let mut opened = open("/rw", "target", "fr");
        opened["name"] = json!("t");
        let calls = json!([{ "call": "repeat", "times": 5_000, "calls": [
            { "call": "close", "name": "t" },
            opened,
            { "call": "read", "file": "t" },
        ] }]);
        let ran = place.run(&calls);
        done.store(true, Ordering::Relaxed);
        ran
    });
    let seen = ran.answers[0].as_array().unwrap();
    let known = [json!("inside"), json!("!no t")];
    assert!(seen.iter().all(|answer| known.contains(answer)), "{seen:?}");
    assert!(seen.contains(&known[0]), "{seen:?}");
    assert!(!ran.denied.is_empty());
}

/// Being refused costs a guest nothing, so refusals are counted after a while.
#[test]
fn a_flood_of_denials_is_counted() {
    let place = Place::new();
    let ran = place.run(&json!([
        { "call": "repeat", "times": 5_000, "calls": [open("/ro", "kept", "w")] },
    ]));
    assert_eq!(ran.answers, [json!(["!not-permitted"])]);
    let (last, single) = ran.denied.split_last().unwrap();
    assert_eq!(single.len(), 1_000);
    assert_eq!(last["wanted"], "4000 more calls");
    assert_eq!(last["capability"], single[0]["capability"]);
}
