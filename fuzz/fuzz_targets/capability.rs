//! Lines that may be anything, read as capabilities: the first half as what a skill asks for, the rest as
//! what it is granted.
//!
//! Nothing may panic, what parses prints as itself, and what two of them share is the same from either
//! side and never more than one of them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skillrun::capability::{Capability, Grant, GrantSource, Policy};

fuzz_target!(|text: &str| {
    let known: Vec<Capability> = text.lines().filter_map(|line| line.parse().ok()).collect();
    for capability in &known {
        assert_eq!(capability.to_string().parse().as_ref(), Ok(capability));
        // Two that leave the folder open share none: somebody has to name one.
        let itself = Some(capability).filter(|capability| capability.is_grantable());
        assert_eq!(capability.intersection(capability).as_ref(), itself);
        for other in &known {
            let shared = capability.intersection(other);
            assert_eq!(shared, other.intersection(capability));
            if let Some(shared) = shared {
                assert_eq!(shared.intersection(other).as_ref(), Some(&shared));
            }
        }
    }
    let (requested, granted) = known.split_at(known.len() / 2);
    let grants = granted.iter().map(|capability| Grant {
        capability: capability.clone(),
        source: GrantSource::Call,
    });
    let policy = Policy::new(requested.to_vec(), grants.collect());
    for got in &policy.effective {
        let meets = |one: &Capability| one.intersection(got).as_ref() == Some(got);
        assert!(requested.iter().any(meets) && granted.iter().any(meets));
    }
});
