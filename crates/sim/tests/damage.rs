//! A sample of what `cargo xtask judge damage` does at every byte.

#[test]
fn damage_at_any_byte_is_named_costs_only_what_it_hits_and_nothing_is_invented() {
    let report = sim::scenario::damage::run(3, 41).unwrap_or_else(|why| panic!("{why}"));
    assert!(report.images > 500 && report.costly > 100, "{report:?}");
}
