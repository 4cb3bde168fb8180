//! Values on their way in and out, for types of every kind.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::read::{self, Misfit};
use super::schema;
use super::shape::{Cases, Integer, Member, Shape};
use super::write::{self, Unwritable};

const BYTES_MAX: usize = 1 << 20;

fn member(name: &str, shape: Shape) -> Member {
    Member {
        name: name.to_owned(),
        shape,
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn option(some: Shape) -> Shape {
    Shape::Option(Box::new(some))
}

fn round(json: &str, shape: &Shape) -> Result<String, Misfit> {
    let value = read::value(json, shape)?;
    Ok(write::json(Some(&value), shape, BYTES_MAX).unwrap())
}

#[track_caller]
fn assert_misfit(json: &str, shape: &Shape, message: &str) {
    let misfit = read::value(json, shape).unwrap_err();
    assert_eq!(misfit.to_string(), message, "{json}");
}

#[test]
fn whole_numbers_are_exact_up_to_both_ends() {
    for (integer, least, greatest) in [
        (Integer::U8, "0", "255"),
        (Integer::S8, "-128", "127"),
        (Integer::U16, "0", "65535"),
        (Integer::S16, "-32768", "32767"),
        (Integer::U32, "0", "4294967295"),
        (Integer::S32, "-2147483648", "2147483647"),
        (Integer::U64, "0", "18446744073709551615"),
        (Integer::S64, "-9223372036854775808", "9223372036854775807"),
    ] {
        let shape = Shape::Integer(integer);
        assert_eq!(round(least, &shape).as_deref(), Ok(least));
        assert_eq!(round(greatest, &shape).as_deref(), Ok(greatest));
        let expected = format!("an integer from {least} to {greatest}");
        let less = (least.parse::<i128>().unwrap() - 1).to_string();
        let more = (greatest.parse::<i128>().unwrap() + 1).to_string();
        for beyond in [
            less,
            more,
            "0.5".into(),
            "\"5\"".into(),
            "null".into(),
            "1e300".into(),
        ] {
            let misfit = read::value(&beyond, &shape).unwrap_err();
            assert_eq!(
                (misfit.path.as_str(), &misfit.expected),
                ("$", &expected),
                "{beyond}"
            );
        }
        assert_eq!(round("7.0", &shape).as_deref(), Ok("7"));
    }
}

#[test]
fn a_misfit_is_told_with_its_place() {
    let item = Shape::Record(vec![
        member("name", Shape::String),
        member("count", Shape::Integer(Integer::U8)),
        member("note", option(Shape::String)),
    ]);
    let shape = Shape::Record(vec![member("items", Shape::List(Box::new(item)))]);
    for (json, message) in [
        (
            r#"{"items":[{"name":"a","count":1},{"name":"b","count":"5"}]}"#,
            r#"at $.items[1].count: expected an integer from 0 to 255, found "5""#,
        ),
        (
            r#"{"items":[{"name":"a","count":256}]}"#,
            "at $.items[0].count: expected an integer from 0 to 255, found 256",
        ),
        (
            r#"{"items":[{"name":"a"}]}"#,
            r#"at $.items[0]: expected an object with the keys name, count, note (optional), found none named "count""#,
        ),
        (
            r#"{"items":[{"name":"a","count":1,"size":1}]}"#,
            r#"at $.items[0]: expected an object with the keys name, count, note (optional), found the key "size""#,
        ),
        (
            r#"{"items":[],"items":[]}"#,
            r#"at $: expected each key once, found "items" twice"#,
        ),
        (
            r#"{"items":{}}"#,
            "at $.items: expected an array, found an object",
        ),
        (
            r#"{"items":[{"name":null,"count":1}]}"#,
            "at $.items[0].name: expected a string, found null",
        ),
    ] {
        assert_misfit(json, &shape, message);
    }
    let surrogate = read::value(r#"{"items":[{"name":"\ud800","count":1}]}"#, &shape);
    let surrogate = surrogate.unwrap_err();
    assert_eq!(surrogate.path, "$.items[0].name");
    assert_eq!(surrogate.expected, "JSON text");
    let optional = r#"{"items":[{"count":1,"name":"a","note":null}]}"#;
    assert_eq!(
        round(optional, &shape).as_deref(),
        Ok(r#"{"items":[{"name":"a","count":1,"note":null}]}"#)
    );
}

#[test]
fn each_kind_has_one_form() {
    let colour = Shape::Enum(names(&["red", "green"]));
    let access = Shape::Flags(names(&["read", "write"]));
    let drawing = Shape::Variant(Cases::new(vec![
        member("nothing", Shape::Nothing),
        member("text", Shape::String),
    ]));
    let pair = Shape::Tuple(vec![Shape::Bool, Shape::Char]);
    let either = Shape::Result(Box::new(Shape::Nothing), Box::new(Shape::String));
    let nested = option(option(Shape::Bool));
    for (shape, good, bad) in [
        (&colour, r#""red""#, r#""blue""#),
        (&access, r#"["read","write"]"#, r#"["read","read"]"#),
        (&access, "[]", r#"["run"]"#),
        (&access, r#"["write"]"#, r#""write""#),
        (&drawing, r#""nothing""#, r#""text""#),
        (&drawing, r#"{"text":"a"}"#, r#"{"nothing":null}"#),
        (&drawing, r#"{"text":""}"#, r#"{"text":"a","nothing":null}"#),
        (&drawing, r#"{"text":"é"}"#, "{}"),
        (&pair, r#"[true,"é"]"#, r#"[true]"#),
        (&pair, r#"[false,"🦀"]"#, r#"[true,"a",1]"#),
        (&pair, r#"[false,"\""]"#, r#"[true,"ab"]"#),
        (&either, r#"{"ok":null}"#, r#"{"ok":1}"#),
        (&either, r#"{"err":"no"}"#, r#"{"ok":null,"err":"no"}"#),
        (&nested, "null", "true"),
        (&nested, r#"{"some":null}"#, r#"{"some":{"some":true}}"#),
        (&nested, r#"{"some":true}"#, r#"{"none":true}"#),
        (&Shape::Float32, "0.1", "1e39"),
        (&Shape::Float32, "-3.4028235e+38", "{}"),
        (&Shape::Float64, "4.1491390426474754e-207", "[1]"),
        (&Shape::Float64, "-1e+300", r#""NaN""#),
        (&Shape::Bool, "true", "1"),
    ] {
        assert_eq!(round(good, shape).as_deref(), Ok(good));
        assert!(read::value(bad, shape).is_err(), "{bad}");
    }
}

#[test]
fn a_result_has_a_bound_and_no_infinite_numbers() {
    let shape = Shape::List(Box::new(Shape::String));
    let value = read::value(r#"["abc","def"]"#, &shape).unwrap();
    assert!(write::json(Some(&value), &shape, 13).is_ok());
    assert_eq!(
        write::json(Some(&value), &shape, 12),
        Err(Unwritable::TooLarge)
    );
    let shape = Shape::Record(vec![member("x", Shape::List(Box::new(Shape::Float64)))]);
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let list = wasmtime::component::Val::List(vec![wasmtime::component::Val::Float64(number)]);
        let record = wasmtime::component::Val::Record(vec![("x".to_owned(), list)]);
        let refused = write::json(Some(&record), &shape, BYTES_MAX).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("at $.x[0]: {number} has no form in JSON")
        );
    }
}

#[test]
fn an_input_has_a_bound_on_its_values() {
    let shape = Shape::List(Box::new(Shape::Integer(Integer::U8)));
    let many = format!("[{}0]", "0,".repeat(500_000));
    let refused = read::value(&many, &shape).unwrap_err();
    assert!(refused.expected.contains("500000 values"), "{refused}");
}

fn shapes() -> impl Strategy<Value = Shape> {
    let leaf = prop_oneof![
        Just(Shape::Bool),
        Just(Shape::Integer(Integer::U8)),
        Just(Shape::Integer(Integer::S64)),
        Just(Shape::Integer(Integer::U64)),
        Just(Shape::Float32),
        Just(Shape::Float64),
        Just(Shape::Char),
        Just(Shape::String),
        Just(Shape::Enum(names(&["red", "green", "blue"]))),
        Just(Shape::Flags(names(&["read", "write"]))),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let payload = prop_oneof![1 => Just(Shape::Nothing), 3 => inner.clone()];
        prop_oneof![
            inner.clone().prop_map(|item| Shape::List(Box::new(item))),
            inner.clone().prop_map(option),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Shape::Tuple),
            prop::collection::vec(inner, 1..4).prop_map(|all| Shape::Record(named(all))),
            prop::collection::vec(payload.clone(), 1..4)
                .prop_map(|all| Shape::Variant(Cases::new(named(all)))),
            (payload.clone(), payload)
                .prop_map(|(ok, err)| Shape::Result(Box::new(ok), Box::new(err))),
        ]
    })
}

fn named(shapes: Vec<Shape>) -> Vec<Member> {
    let letters = ["a", "b", "c", "d"];
    letters
        .iter()
        .zip(shapes)
        .map(|(name, shape)| member(name, shape))
        .collect()
}

/// The values that a shape has, as JSON.
fn values(shape: &Shape) -> BoxedStrategy<Value> {
    let tagged = |key: &str, shape: &Shape| {
        let key = key.to_owned();
        values(shape)
            .prop_map(move |value| json!({ key.clone(): value }))
            .boxed()
    };
    match shape {
        Shape::Nothing => Just(Value::Null).boxed(),
        Shape::Bool => any::<bool>().prop_map(Value::from).boxed(),
        Shape::Integer(integer) => {
            let (least, greatest) = integer.range();
            let above = (0..=greatest).prop_map(Value::from);
            prop_oneof![above, (least..=0).prop_map(Value::from)].boxed()
        }
        // Of these, the shortest text is the same for both widths.
        Shape::Float32 => (-1e6_f32..1e6)
            .prop_filter("too near to 0", |number| number.abs() > 1e-3)
            .prop_map(|number| {
                let text = serde_json::to_string(&number).unwrap();
                text.parse::<f64>().unwrap().into()
            })
            .boxed(),
        Shape::Float64 => prop::num::f64::NORMAL.prop_map(Value::from).boxed(),
        Shape::Char => any::<char>().prop_map(|c| c.to_string().into()).boxed(),
        Shape::String => any::<String>().prop_map(Value::from).boxed(),
        Shape::List(item) => prop::collection::vec(values(item), 0..4)
            .prop_map(Value::from)
            .boxed(),
        Shape::Tuple(items) => {
            let items: Vec<_> = items.iter().map(values).collect();
            items.prop_map(Value::from).boxed()
        }
        Shape::Record(fields) => {
            let names: Vec<String> = fields.iter().map(|field| field.name.clone()).collect();
            let all: Vec<_> = fields.iter().map(|field| values(&field.shape)).collect();
            all.prop_map(move |all| names.iter().cloned().zip(all).collect::<Value>())
                .boxed()
        }
        Shape::Variant(cases) => {
            let forms = cases.members.iter().map(|case| match case.shape {
                Shape::Nothing => Just(Value::from(case.name.as_str())).boxed(),
                ref shape => tagged(&case.name, shape),
            });
            prop::strategy::Union::new(forms).boxed()
        }
        Shape::Enum(names) => prop::sample::select(names.clone())
            .prop_map(Value::from)
            .boxed(),
        Shape::Flags(names) => {
            let count = names.len();
            prop::sample::subsequence(names.clone(), 0..=count)
                .prop_map(Value::from)
                .boxed()
        }
        Shape::Option(some) => {
            let some = match **some {
                Shape::Option(_) => tagged("some", some),
                _ => values(some),
            };
            prop_oneof![Just(Value::Null), some].boxed()
        }
        Shape::Result(ok, err) => prop_oneof![tagged("ok", ok), tagged("err", err)].boxed(),
    }
}

fn shapes_with_values() -> impl Strategy<Value = (Shape, Value)> {
    shapes().prop_flat_map(|shape| {
        let values = values(&shape);
        (Just(shape), values)
    })
}

/// What stands in the place of a part of a value, to see who notices.
fn strangers() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(256),
        json!(2.0),
        json!(0.5),
        json!(1e300),
        json!(""),
        json!("a"),
        json!("ab"),
        json!("red"),
        json!([]),
        json!(["read", "read"]),
        json!({}),
        json!({ "a": 1, "b": 1 }),
        json!({ "some": null }),
        json!({ "ok": null }),
    ])
}

/// The value with one of its parts replaced.
fn replaced(value: &Value, place: prop::sample::Index, stranger: Value) -> Value {
    let place = place.index(size(value));
    let mut value = value.clone();
    replace(&mut value, place, stranger);
    value
}

fn size(value: &Value) -> usize {
    let below: usize = match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.values().map(size).sum(),
        _ => 0,
    };
    1 + below
}

fn replace(value: &mut Value, place: usize, stranger: Value) {
    if place == 0 {
        *value = stranger;
        return;
    }
    let parts: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(fields) => fields.values_mut().collect(),
        _ => Vec::new(),
    };
    let mut place = place - 1;
    for part in parts {
        let size = size(part);
        if place < size {
            return replace(part, place, stranger);
        }
        place -= size;
    }
}

/// Whether a schema takes a value, by the keywords that our schemas have.
fn accepts(schema: &Value, value: &Value) -> bool {
    let all = schema.as_object().unwrap();
    all.iter()
        .all(|(keyword, wanted)| keyword_accepts(keyword, wanted, all, value))
}

fn keyword_accepts(
    keyword: &str,
    wanted: &Value,
    schema: &serde_json::Map<String, Value>,
    value: &Value,
) -> bool {
    let count = |value: &Value| value.as_array().unwrap().len();
    let list = wanted.as_array();
    let bound = wanted.as_f64().unwrap_or_default();
    let number = value.as_f64();
    let chars = value.as_str().map(|text| text.chars().count());
    let accepting = |schemas: &[Value]| schemas.iter().filter(|s| accepts(s, value)).count();
    match keyword {
        "type" => match wanted.as_str().unwrap() {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "integer" => number.is_some_and(|number| number.fract() == 0.0),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("{other}"),
        },
        "minimum" => number.is_none_or(|number| number >= bound),
        "maximum" => number.is_none_or(|number| number <= bound),
        "minLength" => chars.is_none_or(|chars| chars as f64 >= bound),
        "maxLength" => chars.is_none_or(|chars| chars as f64 <= bound),
        "enum" => list.unwrap().contains(value),
        "anyOf" => accepting(list.unwrap()) > 0,
        "oneOf" => accepting(list.unwrap()) == 1,
        "items" => value
            .as_array()
            .is_none_or(|items| items.iter().all(|item| accepts(wanted, item))),
        "prefixItems" => value.as_array().is_none_or(|items| {
            list.unwrap()
                .iter()
                .zip(items)
                .all(|(s, item)| accepts(s, item))
        }),
        "minItems" => !value.is_array() || count(value) as f64 >= bound,
        "maxItems" => !value.is_array() || count(value) as f64 <= bound,
        "uniqueItems" => value.as_array().is_none_or(|items| {
            items
                .iter()
                .enumerate()
                .all(|(index, item)| !items[..index].contains(item))
        }),
        "required" => value.as_object().is_none_or(|fields| {
            list.unwrap()
                .iter()
                .all(|name| fields.contains_key(name.as_str().unwrap()))
        }),
        "properties" => value.as_object().is_none_or(|fields| {
            let known = wanted.as_object().unwrap().iter();
            known
                .into_iter()
                .all(|(name, s)| fields.get(name).is_none_or(|field| accepts(s, field)))
        }),
        "additionalProperties" => value.as_object().is_none_or(|fields| {
            fields
                .keys()
                .all(|name| schema["properties"].get(name).is_some())
        }),
        other => panic!("{other}"),
    }
}

proptest! {
    #[test]
    fn a_value_comes_out_as_it_went_in((shape, value) in shapes_with_values()) {
        let text = round(&value.to_string(), &shape);
        let text = text.map_err(|misfit| TestCaseError::fail(misfit.to_string()))?;
        prop_assert_eq!(text, value.to_string());
    }

    #[test]
    fn a_schema_takes_what_is_read_and_nothing_else(
        (shape, value) in shapes_with_values(),
        place in any::<prop::sample::Index>(),
        stranger in strangers(),
    ) {
        let schema = schema::of(&shape);
        prop_assert!(accepts(&schema, &value), "{schema} refuses {value}");
        let changed = replaced(&value, place, stranger);
        let is_read = read::value(&changed.to_string(), &shape);
        prop_assert_eq!(accepts(&schema, &changed), is_read.is_ok(), "{} {} {:?}", schema, changed, is_read);
    }

    #[test]
    fn no_text_makes_it_panic(shape in shapes(), text in ".{0,60}") {
        let _read = read::value(&text, &shape);
    }
}
