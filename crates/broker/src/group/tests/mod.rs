//! Tests of the groups as a pure machine.
