//! The judges: one folder per official client under `conformance/`, and how each is run.
//!
//! Every suite starts and kills its own brokers from the binary named by `FOURFOLD_BIN`; nothing runs before or after.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::runtimes::Runtime;
use crate::shell::{self, ask, cache, root};
use crate::verdict::{Counts, Reader};

/// One official client and its tests.
pub(crate) struct Suite {
    /// Its folder under `conformance/`, and its name for `--only`.
    pub(crate) name: &'static str,
    /// What must be installed.
    pub(crate) needs: &'static [Runtime],
    kind: Kind,
}

enum Kind {
    Maven,
    Pytest,
    GoTest,
    NodeTest,
    CargoTest,
}

/// All suites, in the order they run.
pub(crate) const SUITES: &[Suite] = &[
    Suite { name: "kafka/java", needs: &[Runtime::Java], kind: Kind::Maven },
    Suite { name: "kafka/librdkafka", needs: &[Runtime::Python], kind: Kind::Pytest },
    Suite { name: "kafka/python", needs: &[Runtime::Python], kind: Kind::Pytest },
    Suite { name: "kafka/go", needs: &[Runtime::Go], kind: Kind::GoTest },
    Suite { name: "kafka/node", needs: &[Runtime::Node], kind: Kind::NodeTest },
    Suite { name: "kafka/kcat", needs: &[Runtime::Python, Runtime::Kcat], kind: Kind::Pytest },
    Suite { name: "amqp/pika", needs: &[Runtime::Python], kind: Kind::Pytest },
    Suite { name: "amqp/management", needs: &[Runtime::Python], kind: Kind::Pytest },
    Suite { name: "amqp/go", needs: &[Runtime::Go], kind: Kind::GoTest },
    Suite { name: "amqp/java", needs: &[Runtime::Java], kind: Kind::Maven },
    Suite { name: "amqp/spring", needs: &[Runtime::Java], kind: Kind::Maven },
    Suite { name: "amqp/aio-pika", needs: &[Runtime::Python], kind: Kind::Pytest },
    Suite { name: "amqp/node", needs: &[Runtime::Node], kind: Kind::NodeTest },
    Suite { name: "amqp/lapin", needs: &[], kind: Kind::CargoTest },
    Suite { name: "tls/python", needs: &[Runtime::Python], kind: Kind::Pytest },
];

impl Suite {
    /// Whether `part` names it: by its own name, or by the folder it is in.
    pub(crate) fn is_in(&self, part: &str) -> bool {
        let part = part.trim_end_matches('/');
        self.name == part || self.name.strip_prefix(part).is_some_and(|rest| rest.starts_with('/'))
    }

    fn dir(&self) -> PathBuf {
        root().join("conformance").join(self.name)
    }

    /// Fetches the client's libraries into the cache, by the language's own package manager.
    pub(crate) fn fetch(&self) -> Result<(), String> {
        match self.kind {
            // Maven fetches while it runs.
            Kind::Maven => Ok(()),
            Kind::Pytest => self.venv().map(drop),
            Kind::GoTest => {
                let mut command = self.go();
                command.args(["mod", "download"]);
                shell::run(command)
            }
            Kind::NodeTest => {
                let mut command = Command::new("npm");
                command.current_dir(self.dir()).args(["ci", "--no-audit", "--no-fund", "--loglevel=error", "--cache"]);
                command.arg(cache().join("npm"));
                shell::run(command)
            }
            Kind::CargoTest => {
                let mut command = self.cargo();
                command.args(["fetch", "--locked", "--quiet"]);
                shell::run(command)
            }
        }
    }

    /// Runs the suite against `binary` and counts what its runner reports.
    pub(crate) fn run(&self, binary: &Path) -> Result<Counts, String> {
        let (mut command, reader) = match self.kind {
            Kind::Maven => (self.maven(), Reader::Surefire),
            Kind::Pytest => (self.pytest()?, Reader::Pytest),
            Kind::GoTest => (self.go_test(), Reader::Go),
            Kind::NodeTest => (self.node_test()?, Reader::Node),
            Kind::CargoTest => (self.cargo_test(), Reader::Cargo),
        };
        command.env("FOURFOLD_BIN", binary);
        let (well, said) = shell::tee(command)?;
        let mut counts = reader.read(&said);
        // A runner that fails without naming a test (it did not compile, it crashed) is a failure all the same; and a
        // runner that ran nothing has shown nothing.
        if (!well || counts.passed == 0) && counts.failed == 0 {
            counts.failed = 1;
        }
        Ok(counts)
    }

    fn maven(&self) -> Command {
        let mut command = Command::new("mvn");
        command.current_dir(self.dir()).args(["--batch-mode", "--no-transfer-progress"]);
        command.arg(format!("-Dmaven.repo.local={}", cache().join("m2").display()));
        command.arg(format!("-Dfourfold.build={}", cache().join("java").join(self.name).display()));
        command.arg("test");
        command
    }

    fn venv(&self) -> Result<PathBuf, String> {
        let venv = cache().join("venv").join(self.name.replace('/', "-"));
        let wanted = self.dir().join("requirements.txt");
        let pins = std::fs::read_to_string(&wanted).map_err(|e| format!("{}: {e}", wanted.display()))?;
        // The interpreter is part of the mark: a venv of a removed one does not run.
        let mark = format!("{pins}{}", ask("python3", &["-VV"]).unwrap_or_default());
        let marker = venv.join("fourfold-pins.txt");
        let python = venv.join("bin/python");
        if std::fs::read_to_string(&marker).is_ok_and(|have| have == mark) {
            return Ok(python);
        }
        let mut command = Command::new("python3");
        command.args(["-m", "venv", "--clear"]).arg(&venv);
        shell::run(command)?;
        let mut command = Command::new(&python);
        command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]).arg(&wanted);
        shell::run(command)?;
        std::fs::write(&marker, mark).map_err(|e| format!("{}: {e}", marker.display()))?;
        Ok(python)
    }

    fn pytest(&self) -> Result<Command, String> {
        let mut command = Command::new(self.venv()?);
        command.current_dir(self.dir()).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUNBUFFERED", "1");
        command.env("PYTHONPATH", root().join("conformance/support"));
        command.args(["-m", "pytest", "-v", "--tb=short", "-p", "no:cacheprovider"]);
        Ok(command)
    }

    fn go(&self) -> Command {
        let mut command = Command::new("go");
        command
            .current_dir(self.dir())
            .env("GOMODCACHE", cache().join("go/mod"))
            .env("GOCACHE", cache().join("go/build"));
        command.env("GOFLAGS", "-mod=readonly -buildvcs=false");
        command
    }

    fn cargo(&self) -> Command {
        let mut command = Command::new("cargo");
        command.current_dir(self.dir()).env("CARGO_TARGET_DIR", cache().join("cargo").join(self.name));
        command
    }

    fn cargo_test(&self) -> Command {
        let mut command = self.cargo();
        command.args(["test", "--locked"]);
        command
    }

    fn go_test(&self) -> Command {
        let mut command = self.go();
        command.args(["test", "-count=1", "-v", "-timeout=15m", "./..."]);
        command
    }

    fn node_test(&self) -> Result<Command, String> {
        let dir = self.dir();
        let mut files: Vec<_> = std::fs::read_dir(&dir)
            .map_err(|e| format!("{}: {e}", dir.display()))?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.ends_with(".test.js"))
            .collect();
        files.sort();
        let mut command = Command::new("node");
        command.current_dir(&dir).args(["--test", "--test-reporter=spec", "--test-concurrency=1"]).args(files);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_names_a_suite_or_a_folder_of_suites() {
        assert!(SUITES[0].is_in("kafka/java") && SUITES[0].is_in("kafka") && SUITES[0].is_in("kafka/"));
        assert!(!SUITES[0].is_in("kafka/ja") && !SUITES[0].is_in("amqp"));
    }

    #[test]
    fn every_suite_has_its_folder() {
        for suite in SUITES {
            assert!(suite.dir().is_dir(), "conformance/{} is missing", suite.name);
        }
    }
}
