//! A small volume in memory, mounted for one trial.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;

/// A mounted tmpfs; unmounted when it is dropped.
pub(super) struct Volume {
    /// Where it is mounted.
    pub(super) path: PathBuf,
}

impl Volume {
    /// Mounts `bytes` at `path`.
    ///
    /// # Errors
    /// Without root's rights.
    pub(super) fn mount(path: &Path, bytes: u64) -> Outcome<Volume> {
        std::fs::create_dir_all(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let told = |why: String| format!("{why}\nthis judge mounts a small tmpfs, which needs root");
        mount(&["-t", "tmpfs", "-o", &size(bytes), "tmpfs"], path).map_err(told)?;
        Ok(Volume { path: path.to_owned() })
    }

    /// Makes it larger (or smaller).
    ///
    /// # Errors
    /// The operating system's.
    pub(super) fn resize(&self, bytes: u64) -> Outcome<()> {
        mount(&["-o", &format!("remount,{}", size(bytes))], &self.path)
    }

    /// Takes all space that is left.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(super) fn take_the_rest(&self) -> Outcome<()> {
        let file = self.path.join("others-file");
        let mut open = std::fs::File::create(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let piece = [1; 4096];
        while std::io::Write::write_all(&mut open, &piece).is_ok() {}
        Ok(())
    }

    /// Gives back what [`Volume::take_the_rest`] took.
    ///
    /// # Errors
    /// The operating system's.
    pub(super) fn give_back(&self) -> Outcome<()> {
        std::fs::remove_file(self.path.join("others-file")).map_err(|e| e.to_string())
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.path).status(); // the trial's outcome says more
    }
}

fn size(bytes: u64) -> String {
    format!("size={bytes}")
}

fn mount(args: &[&str], path: &Path) -> Outcome<()> {
    let output = Command::new("mount").args(args).arg(path).output().map_err(|e| format!("mount: {e}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(format!("mount {}: {said}", path.display())) }
}
