//! What happens to a world, told by a seed.

pub mod crash;
pub mod damage;
