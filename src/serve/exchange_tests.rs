//! Whole exchanges over a site in memory: what a client would see, byte for byte where it counts.

use super::{Exchange, FileInfo, Found, Part, Response, Site, Stored, Validators};
use std::time::{Duration, SystemTime};

const NOW: SystemTime = SystemTime::UNIX_EPOCH;
const TEXT: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";

struct Memory;

impl Site for Memory {
    type File = &'static [u8];

    fn find(&self, path: &[u8]) -> Found<Self::File> {
        match path {
            b"" | b"text" => Found::File(FileInfo::new(
                TEXT,
                TEXT.len() as u64,
                Validators {
                    etag: "\"tag\"".into(),
                    modified: SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777),
                },
                "text/plain".into(),
            )),
            b"empty" => Found::File(FileInfo::new(
                &[],
                0,
                Validators {
                    etag: "\"nothing\"".into(),
                    modified: SystemTime::UNIX_EPOCH,
                },
                "text/plain".into(),
            )),
            b"a b" => Found::Directory,
            b"list/" => Found::Listing(vec!["<x>".into(), "sub/".into(), "a:b".into()]),
            b"secret" => Found::Refused(403),
            _ => Found::Refused(404),
        }
    }
}

fn bytes_of(response: Response<&'static [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in response.parts {
        match part {
            Part::Bytes(more) => bytes.extend(more),
            Part::File {
                file,
                offset,
                length,
            } => {
                assert!(length > 0);
                let (first, length) = (offset as usize, length as usize);
                bytes.extend_from_slice(&file[first..first + length]);
            }
        }
    }
    bytes
}

/// Head (without the blank line) and body of the only response to `request`.
#[track_caller]
fn ask(request: &str) -> (String, String) {
    let mut exchange = Exchange::default();
    exchange.receive(request.as_bytes());
    let response = exchange.respond(&Memory, NOW).expect("a response");
    let status = response.status;
    let text = String::from_utf8(bytes_of(response)).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")));
    assert!(exchange.respond(&Memory, NOW).is_none());
    (head.to_string(), body.to_string())
}

#[track_caller]
fn get(target: &str, fields: &str) -> (String, String) {
    ask(&format!("GET {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n"))
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn a_file_is_sent_with_all_that_is_known_of_it() {
    let (head, body) = get("/", "");
    assert_eq!(body.as_bytes(), TEXT);
    let expected = "HTTP/1.1 200 OK\r\nServer: outboard\r\n\
        Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nETag: \"tag\"\r\n\
        Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nAccept-Ranges: bytes\r\n\
        Content-Type: text/plain\r\nContent-Length: 36\r\nConnection: keep-alive";
    assert_eq!(head, expected);
}

#[test]
fn head_is_get_without_the_body() {
    let (with, _) = get("/text", "");
    let (without, body) = ask("HEAD /text HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!((without, body.as_str()), (with, ""));
    let (head, body) = ask("HEAD /none HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 404 ") && body.is_empty());
    assert_ne!(field(&head, "Content-Length"), Some("0"));
}

#[test]
fn one_range_is_a_part_several_are_a_multipart() {
    let (head, body) = get("/", "Range: bytes=10-13\r\n");
    assert_eq!(body, "abcd");
    assert_eq!(field(&head, "Content-Range"), Some("bytes 10-13/36"));
    assert_eq!(field(&head, "Content-Length"), Some("4"));

    let (head, body) = get("/", "Range: bytes=0-1,-2\r\n");
    let boundary = field(&head, "Content-Type")
        .and_then(|value| value.strip_prefix("multipart/byteranges; boundary="))
        .expect("a boundary");
    let expected = format!(
        "\r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-1/36\r\n\r\n01\
         \r\n--{boundary}\r\nContent-Type: text/plain\r\nContent-Range: bytes 34-35/36\r\n\r\nyz\
         \r\n--{boundary}--\r\n"
    );
    assert_eq!(body, expected);
    assert_eq!(
        field(&head, "Content-Length"),
        Some(expected.len().to_string().as_str())
    );

    let (head, _) = get("/", "Range: bytes=36-\r\n");
    assert!(head.starts_with("HTTP/1.1 416 "));
    assert_eq!(field(&head, "Content-Range"), Some("bytes */36"));
}

#[test]
fn a_range_of_another_state_gets_the_whole() {
    let (head, body) = get("/", "Range: bytes=0-0\r\nIf-Range: \"old\"\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && body.as_bytes() == TEXT);
    let (head, _) = get("/", "Range: bytes=0-0\r\nIf-Range: \"tag\"\r\n");
    assert!(head.starts_with("HTTP/1.1 206 "));
    let (head, _) = ask("HEAD / HTTP/1.1\r\nHost: x\r\nRange: bytes=0-0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_client_that_has_it_is_told_so_without_a_body() {
    let (head, body) = get("/", "If-None-Match: \"tag\"\r\n");
    assert!(head.starts_with("HTTP/1.1 304 ") && body.is_empty());
    assert_eq!(field(&head, "ETag"), Some("\"tag\""));
    assert_eq!(field(&head, "Content-Length"), None);
}

#[test]
fn an_empty_file_has_no_body_to_send() {
    let (head, body) = get("/empty", "Range: bytes=0-\r\n");
    assert!(head.starts_with("HTTP/1.1 416 ") && !body.is_empty());
    let (head, body) = get("/empty", "");
    assert_eq!(
        (field(&head, "Content-Length"), body.as_str()),
        (Some("0"), "")
    );
}

#[test]
fn errors_are_pages_and_directories_lead_on() {
    let (head, body) = get("/none", "");
    assert!(head.starts_with("HTTP/1.1 404 ") && body.contains("<h1>404 Not Found</h1>"));
    assert!(get("/secret", "").0.starts_with("HTTP/1.1 403 "));
    assert!(get("/../x", "").0.starts_with("HTTP/1.1 400 "));
    let (head, _) = get("/a%20b", "");
    assert!(head.starts_with("HTTP/1.1 301 "));
    assert_eq!(field(&head, "Location"), Some("/a%20b/"));
    let (head, _) = ask("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(field(&head, "Allow"), Some("GET, HEAD"));
    assert_eq!(field(&head, "Connection"), Some("close"));
}

#[test]
fn a_body_to_be_stored_is_taken_out_before_the_next_request_is_answered() {
    let requests = "PUT /new HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nGET / not\
        GET /text HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut exchange = Exchange::new(Some(9));
    exchange.receive(requests.as_bytes());
    for _ in 0..2 {
        assert!(exchange.respond(&Memory, NOW).is_none());
    }
    assert!(!exchange.is_idle() && !exchange.is_waiting_for_rest());
    assert_eq!(exchange.upload().map(|request| request.body), Some(9));
    assert_eq!(exchange.take_body(9), b"GET / not");
    let created: Response<&[u8]> = exchange.stored(&Stored::Created(b"a b".to_vec()), NOW);
    let text = String::from_utf8(bytes_of(created)).unwrap();
    assert!(text.starts_with("HTTP/1.1 201 Created\r\n"));
    assert_eq!(field(&text, "Location"), Some("/a%20b"));
    assert_eq!(exchange.respond(&Memory, NOW).unwrap().status, 200);

    exchange.receive(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n");
    assert!(exchange.respond(&Memory, NOW).is_none());
    assert_eq!(exchange.take_body(1), b"");
    let replaced: Response<&[u8]> = exchange.stored(&Stored::Replaced, NOW);
    let text = String::from_utf8(bytes_of(replaced)).unwrap();
    assert!(text.starts_with("HTTP/1.1 204 ") && text.ends_with("\r\n\r\n"));
    assert_eq!(field(&text, "Content-Length"), None);

    // The rest of a body that is not wanted is no request.
    exchange.receive(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc");
    assert!(exchange.respond(&Memory, NOW).is_none());
    let refused: Response<&[u8]> = exchange.stored(&Stored::Refused(507), NOW);
    assert_eq!((refused.status, refused.close), (507, true));
    assert!(exchange.respond(&Memory, NOW).is_none());

    let mut exchange = Exchange::new(Some(9));
    exchange.receive(b"DELETE / HTTP/1.1\r\nHost: x\r\n\r\n");
    let text = String::from_utf8(bytes_of(exchange.respond(&Memory, NOW).unwrap())).unwrap();
    assert_eq!(field(&text, "Allow"), Some("GET, HEAD, PUT, POST"));
}

#[test]
fn listings_escape_names_for_page_and_link() {
    let (_, body) = get("/list/", "");
    assert!(body.contains("<a href=\"./%3Cx%3E\">&lt;x&gt;</a>"));
    assert!(body.contains("<a href=\"./sub/\">sub/</a>"));
    assert!(body.contains("<a href=\"../\">"));
    assert!(body.contains("<a href=\"./a%3Ab\">a:b</a>"));
}

#[test]
fn pipelined_requests_are_answered_in_order_whatever_the_cuts() {
    let requests = "\r\nGET /text HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde\
        HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n\
        GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    for size in [1, 2, 3, 7, 50, requests.len()] {
        let mut exchange = Exchange::default();
        let mut statuses = Vec::new();
        let mut bodies = 0;
        for chunk in requests.as_bytes().chunks(size) {
            exchange.receive(&chunk[..chunk.len().min(exchange.room())]);
            while let Some(response) = exchange.respond(&Memory, NOW) {
                statuses.push((response.status, response.close));
                bodies += response.parts.len() - 1;
            }
        }
        assert_eq!(
            statuses,
            [(200, false), (200, false), (404, true)],
            "{size}"
        );
        assert_eq!((bodies, exchange.room()), (1, 0));
    }
}

#[test]
fn what_is_no_request_is_refused_once_and_ends_the_connection() {
    let mut exchange = Exchange::default();
    exchange.receive(b"\x16\x03\x01 hello\r\n\r\n");
    let response = exchange.respond(&Memory, NOW).unwrap();
    assert_eq!((response.status, response.close), (400, true));
    assert!(exchange.respond(&Memory, NOW).is_none());
    assert_eq!(exchange.room(), 0);
}

#[test]
fn half_a_request_times_out_with_a_page() {
    let mut exchange = Exchange::default();
    assert!(!exchange.is_waiting_for_rest());
    exchange.receive(b"GET / HT");
    assert!(exchange.respond(&Memory, NOW).is_none());
    assert!(exchange.is_waiting_for_rest());
    let response: Response<&[u8]> = exchange.time_out(NOW);
    assert_eq!((response.status, response.close), (408, true));
}

#[test]
fn the_memory_of_a_long_head_is_not_kept() {
    let mut exchange = Exchange::default();
    let mut kept_after = |head: usize| {
        let pad = "x".repeat(head);
        let request = format!("GET /text HTTP/1.1\r\nHost: x\r\nX: {pad}\r\n\r\n");
        exchange.receive(request.as_bytes());
        exchange.respond(&Memory, NOW).expect("a response");
        assert!(exchange.is_empty());
        exchange.input.capacity()
    };
    assert_eq!(kept_after(4000), 0);
    assert!((1..=1024).contains(&kept_after(100)));
}
