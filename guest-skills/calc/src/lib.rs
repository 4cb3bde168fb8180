//! A component that follows a world of its own and knows nothing of skillrun: most of its functions give
//! back what they are given, so that a test sees what became of it on the way in and out.

mod bindings {
    wit_bindgen::generate!({ path: "wit", world: "calc" });

    use super::Calc;

    export!(Calc);
}

use std::cell::Cell;

use bindings::Guest;
use bindings::exports::acme::calc::{handles, kinds, other};
use kinds::{Access, Colour, Drawing, Order, Point, RecordOfOne};

struct Calc;

struct Counter(Cell<u32>);

impl Guest for Calc {
    fn add(a: i32, b: i32) -> i32 {
        a.wrapping_add(b)
    }
}

impl kinds::Guest for Calc {
    fn wholes(
        a: u64,
        b: i64,
        c: u32,
        d: i32,
        e: u16,
        f: i16,
        g: u8,
        h: i8,
    ) -> (u64, i64, u32, i32, u16, i16, u8, i8) {
        (a, b, c, d, e, f, g, h)
    }

    fn floats(single: f32, double: f64) -> (f32, f64) {
        (single, double)
    }

    fn texts(character: char, text: String, yes: bool) -> (char, String, bool) {
        (character, text, yes)
    }

    fn place(order: Order) -> Order {
        order
    }

    fn draw(drawings: Vec<Drawing>) -> Vec<Drawing> {
        drawings
    }

    fn paint(colour: Colour, access: Access) -> (Colour, Access) {
        (colour, access)
    }

    fn maybe(value: Option<Option<u32>>) -> Option<Option<u32>> {
        value
    }

    fn either(value: Result<u32, String>) -> (Result<u32, String>, Result<(), ()>) {
        let bare = value.as_ref().map(|_| ()).map_err(|_| ());
        (value, bare)
    }

    fn bytes(bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn nothing() {}

    fn divide(dividend: f64, divisor: f64) -> Result<f64, String> {
        if divisor == 0.0 {
            return Err(format!("cannot divide {dividend} by zero"));
        }
        Ok(dividend / divisor)
    }

    fn divide_anyway(dividend: f64, divisor: f64) -> RecordOfOne {
        RecordOfOne {
            quotient: dividend / divisor,
        }
    }

    fn check(point: Point) -> Result<(), Point> {
        if point.x == 0 { Ok(()) } else { Err(point) }
    }

    fn fill(bytes: u32) -> String {
        "x".repeat(usize::try_from(bytes).unwrap_or(0))
    }

    fn spin() {
        loop {
            std::hint::spin_loop();
        }
    }

    fn allocate(bytes: u32) -> u32 {
        let taken = vec![1_u8; usize::try_from(bytes).unwrap_or(0)];
        taken.iter().map(|&byte| u32::from(byte)).sum()
    }

    fn stumble() {
        unreachable!("as it was asked to")
    }
}

impl handles::Guest for Calc {
    type Counter = Counter;

    fn open() -> handles::Counter {
        handles::Counter::new(Counter(Cell::new(0)))
    }

    fn close(_counter: handles::Counter) {}
}

impl handles::GuestCounter for Counter {
    fn new() -> Self {
        Self(Cell::new(0))
    }

    fn next(&self) -> u32 {
        self.0.replace(self.0.get() + 1)
    }

    fn fresh() -> u32 {
        0
    }
}

impl other::Guest for Calc {
    fn nothing() -> String {
        "not nothing".to_owned()
    }
}
