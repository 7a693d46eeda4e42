//! The clients that make the load, fetched by their own package managers into `target/bench` once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;

/// The version of Kafka's own tools and client.
const KAFKA_VERSION: &str = "4.4.0";
/// librdkafka's Python binding, and the other Python clients.
const LIBRDKAFKA: &str = "confluent-kafka==2.16.1";
const KAFKA_PYTHON: &str = "kafka-python==3.0.12";
const PIKA: &str = "pika==1.4.4";

const POM: &str = r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bench</groupId><artifactId>tools</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId>
      <version>VERSION</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId>
      <version>VERSION</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"#;

/// The class path of Kafka's own tools; resolved through Maven on the first call.
///
/// # Errors
/// When Maven is missing or cannot resolve them.
pub fn kafka_tools() -> Outcome<String> {
    let folder = folder("kafka-tools")?;
    let libs = folder.join("libs");
    if !folder.join("done").exists() {
        eprintln!("fetching Kafka's tools {KAFKA_VERSION} …");
        write(&folder.join("pom.xml"), &POM.replace("VERSION", KAFKA_VERSION))?;
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "-f", "pom.xml", "dependency:copy-dependencies", "-DincludeScope=runtime"]);
        maven.arg(format!("-DoutputDirectory={}", libs.display())).current_dir(&folder);
        succeed(&mut maven)?;
        write(&folder.join("done"), "")?;
    }
    Ok(format!("{}/*", libs.display()))
}

/// A call of one of Kafka's own tools.
///
/// # Errors
/// As [`kafka_tools`].
pub fn java(class: &str) -> Outcome<Command> {
    let mut command = Command::new("java");
    command.args(["-Xmx512m", "-cp", &kafka_tools()?, class]);
    Ok(command)
}

/// A Python that has librdkafka's binding; made on the first call.
///
/// # Errors
/// When Python is missing or the package cannot be installed.
pub fn librdkafka_python() -> Outcome<PathBuf> {
    python("librdkafka", &[LIBRDKAFKA])
}

/// A Python that has the clients of both tongues; made on the first call.
///
/// # Errors
/// As [`librdkafka_python`].
pub fn clients_python() -> Outcome<PathBuf> {
    python("clients", &[LIBRDKAFKA, KAFKA_PYTHON, PIKA])
}

fn python(name: &str, packages: &[&str]) -> Outcome<PathBuf> {
    let folder = folder(name)?;
    let python = folder.join("venv/bin/python");
    if !folder.join("done").exists() {
        eprintln!("fetching {} …", packages.join(", "));
        succeed(Command::new("python3").args(["-m", "venv"]).arg(folder.join("venv")))?;
        succeed(Command::new(&python).args(["-m", "pip", "install", "-q"]).args(packages))?;
        write(&folder.join("done"), "")?;
    }
    Ok(python)
}

/// Runs a command to its end and answers what it printed.
///
/// # Errors
/// When it cannot be started or fails; the message holds the end of what it printed.
pub fn output(command: &mut Command) -> Outcome<String> {
    let done = command.stdin(Stdio::null()).output().map_err(|why| format!("{command:?}: {why}"))?;
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    if done.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    Err(format!("{:?} failed: {text}{errors}", command.get_program()))
}

fn succeed(command: &mut Command) -> Outcome<()> {
    output(command).map(drop)
}

fn folder(name: &str) -> Outcome<PathBuf> {
    let path = Path::new("target/bench").join(name);
    fs::create_dir_all(&path).map_err(|why| format!("{}: {why}", path.display()))?;
    path.canonicalize().map_err(|why| format!("{}: {why}", path.display()))
}

fn write(path: &Path, text: &str) -> Outcome<()> {
    fs::write(path, text).map_err(|why| format!("{}: {why}", path.display()))
}
