//! The engine by its own calls, on simulated and watched disks.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod backlog;
mod basics;
mod common;
mod compaction;
mod compaction_faults;
mod damage;
mod faults;
mod format;
mod heads;
mod indexes;
mod model;
mod pace;
mod reads;
mod repair;
mod segments;
mod sending;
mod unreadable;
