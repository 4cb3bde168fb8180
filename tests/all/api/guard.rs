//! Who may ask at all.

use std::net::SocketAddr;

use skillrun_test_artifacts::GREET;

use super::daemon::Daemon;
use crate::harness::Home;

/// A token, as it stands in a file.
const TOKEN: &str = "0123456789abcdef";

fn raw(host: &str, more: &str) -> String {
    format!("GET /api/skills HTTP/1.1\r\n{host}{more}Connection: close\r\n\r\n")
}

/// A `Host`, an `Origin`, and the code of the refusal.
fn cases(address: SocketAddr) -> Vec<(String, &'static str, Option<&'static str>)> {
    let port = address.port();
    vec![
        (format!("Host: {address}\r\n"), "", None),
        (format!("Host: localhost:{port}\r\n"), "", None),
        (format!("Host: [::1]:{port}\r\n"), "", None),
        ("Host: box.EXAMPLE\r\n".to_owned(), "", None),
        (
            format!("Host: {address}\r\n"),
            "Origin: https://board.example.com\r\n",
            None,
        ),
        (
            "Host: localhost:1\r\n".to_owned(),
            "Origin: http://localhost:1\r\n",
            None,
        ),
        ("Host: evil\r\n".to_owned(), "", Some("forbidden_host")),
        (
            "Host: localhost.evil:80\r\n".to_owned(),
            "",
            Some("forbidden_host"),
        ),
        ("Host: 10.0.0.1\r\n".to_owned(), "", Some("forbidden_host")),
        (
            "Host: x@localhost\r\n".to_owned(),
            "",
            Some("forbidden_host"),
        ),
        (
            "Host: localhost\r\nHost: localhost\r\n".to_owned(),
            "",
            Some("forbidden_host"),
        ),
        ("Host: \r\n".to_owned(), "", Some("forbidden_host")),
        (String::new(), "", Some("forbidden_host")),
        (
            format!("Host: {address}\r\n"),
            "Origin: http://evil\r\n",
            Some("forbidden_origin"),
        ),
        (
            format!("Host: {address}\r\n"),
            "Origin: null\r\n",
            Some("forbidden_origin"),
        ),
        (
            format!("Host: {address}\r\n"),
            "Origin: https://localhost\r\n",
            Some("forbidden_origin"),
        ),
        (
            format!("Host: {address}\r\n"),
            "Origin: https://board.example.com\r\nOrigin: http://evil\r\n",
            Some("forbidden_origin"),
        ),
    ]
}

#[test]
fn c16_a_foreign_host_or_origin_is_refused() {
    let home = Home::new(&[]);
    home.configure(
        "[serve]\nhosts = [\"Box.example\"]\norigins = [\"https://board.example.com\"]\n",
    );
    let daemon = Daemon::start(&home);
    for (host, origin, expected) in cases(daemon.address) {
        let answer = daemon.send(raw(&host, origin));
        match expected {
            None => assert_eq!(answer.status, 200, "{host}{origin}"),
            Some(code) => {
                assert_eq!(answer.status, 403, "{host}{origin}");
                assert_eq!(answer.problem(), code, "{host}{origin}");
            }
        }
    }
}

#[test]
fn a_token_that_is_configured_has_to_be_brought() {
    let home = Home::new(&[]);
    std::fs::write(home.path().join("token"), format!("{TOKEN}\n")).unwrap();
    home.configure("[serve]\ntoken_file = \"token\"\n");
    let daemon = Daemon::start(&home);
    let ask = |path: &str, headers: &[&str]| daemon.request("GET", path, headers, None);
    let good = format!("Authorization: bearer {TOKEN}");
    assert_eq!(ask("/api/skills", &[&good]).status, 200);
    assert_eq!(ask("/healthz", &[]).status, 200);
    for open in ["/readyz", "/openapi.json", "/docs/"] {
        assert_eq!(ask(open, &[]).status, 200, "{open}");
    }
    assert_eq!(ask("/docsx", &[]).status, 401);
    for header in [
        "X-None: there",
        "Authorization: Bearer 0123456789abcdeX",
        "Authorization: Bearer 0123456789abcde",
        "Authorization: Basic 0123456789abcdef",
        "Authorization: 0123456789abcdef",
    ] {
        let answer = ask("/api/skills", &[header]);
        assert_eq!(answer.status, 401, "{header}");
        assert_eq!(answer.problem(), "unauthorized");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    assert_eq!(
        ask("/healthz", &["Authorization: Bearer wrong"]).status,
        401
    );
    assert!(!daemon.log().contains(TOKEN));
}

#[test]
fn the_page_needs_no_token_and_has_no_data() {
    let home = Home::new(&[GREET]);
    std::fs::write(home.path().join("token"), format!("{TOKEN}\n")).unwrap();
    home.configure("[serve]\ntoken_file = \"token\"\n");
    let everywhere = ["serve", "--listen", "0.0.0.0:0"];
    let daemon = Daemon::of(&home, &mut home.command(&everywhere));
    let ask = |path: &str, headers: &[&str]| daemon.request("GET", path, headers, None);
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/page/app.css", "text/css; charset=utf-8"),
        ("/page/js/main.js", "text/javascript; charset=utf-8"),
    ] {
        let page = ask(path, &[]);
        assert_eq!(page.status, 200, "{path}");
        assert_eq!(page.header("content-type"), Some(kind), "{path}");
        assert_eq!(page.header("cache-control"), Some("no-cache"), "{path}");
        let policy = page.header("content-security-policy").unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.split("; ").any(|it| it == part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        // What the daemon has and does is not in it: the files stand in the repository.
        let file = path.strip_prefix("/page/").unwrap_or("index.html");
        let file = format!("{}/src/api/page/{file}", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(page.body, std::fs::read(file).unwrap(), "{path}");
        let tag = format!("If-None-Match: W/\"x\", {}", page.header("etag").unwrap());
        let same = ask(path, &[&tag]);
        assert_eq!((same.status, same.body.len()), (304, 0), "{path}");
        let head = daemon.request("HEAD", path, &[], None);
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
    }
    for closed in [
        "/page",
        "/page/",
        "/page/none.js",
        "/page/../api/skills",
        "//",
        "/api/skills",
    ] {
        assert_eq!(ask(closed, &[]).status, 401, "{closed}");
    }
    let good = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(ask("/page/none.js", &[&good]).status, 404);
    assert_eq!(daemon.request("POST", "/", &[&good], None).status, 405);
    assert_eq!(
        daemon.send("GET / HTTP/1.1\r\nHost: evil\r\n\r\n").status,
        403
    );
}

#[test]
fn who_listens_on_every_address_is_asked_by_any_of_them_and_by_no_name() {
    let home = Home::new(&[]);
    home.configure("[serve]\ntoken_env = \"SKILLRUN_TEST_TOKEN\"\n");
    let mut serve = home.command(&["serve", "--listen", "0.0.0.0:0"]);
    let daemon = Daemon::of(&home, serve.env("SKILLRUN_TEST_TOKEN", TOKEN));
    for (host, status) in [
        ("192.0.2.7", 200),
        ("[2001:db8::7]:80", 200),
        ("localhost", 200),
        ("evil", 403),
        ("192.0.2.7.evil", 403),
    ] {
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(daemon.send(request).status, status, "{host}");
    }
}

#[test]
fn an_address_that_others_reach_needs_a_token() {
    let home = Home::new(&[]);
    for (config, part) in [
        ("[serve]\nlisten = \"0.0.0.0:0\"\n", "no loopback address"),
        (
            "[serve]\ntoken_env = \"SKILLRUN_NO_SUCH_TOKEN\"\n",
            "SKILLRUN_NO_SUCH_TOKEN is not set",
        ),
        ("[serve]\ntoken_file = \"absent\"\n", "cannot read"),
        (
            "[serve]\nlisten = \"localhost\"\n",
            "line 2: serve.listen: expected an IP address",
        ),
        (
            "[serve]\nhosts = [\"a b\"]\n",
            "line 2: serve.hosts: expected a host name",
        ),
        (
            "[serve]\norigins = [\"https://a/b\"]\n",
            "line 2: serve.origins: expected scheme",
        ),
        (
            "[serve]\nconnections_max = 1\n",
            "serve.connections_max = 1 is out of range: expected 16",
        ),
        (
            "[serve]\ntoken_env = \"A\"\ntoken_file = \"b\"\n",
            "either this or serve.token_env",
        ),
    ] {
        home.configure(config);
        let ran = home.skillrun(&["serve"]);
        assert_eq!(ran.exit, Some(2), "{config}: {ran:?}");
        assert!(ran.stderr.contains(part), "{config}: {ran:?}");
    }
    std::fs::write(home.path().join("short"), "0123456789abcde").unwrap();
    home.configure("[serve]\ntoken_file = \"short\"\n");
    let ran = home.skillrun(&["serve"]);
    assert!(ran.stderr.contains("at least 16 printable"), "{ran:?}");
}
