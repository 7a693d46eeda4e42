//! `fourfold debug repair`: says what a repair would do, and does it with `--yes`. What is done is decided by storage;
//! here it is put into words.

use serde_json::{Value, json};
use storage::inspect::{Rebuild, Repair, Torn};

use super::{FolderArgs, Names, name_of, names, row, with_bar};
use crate::cli::CliError;
use crate::cli::output::{Format, print, print_json};

pub(super) fn repair(folder: &FolderArgs, yes: bool) -> Result<(), CliError> {
    let disk = folder.open()?;
    let repair = with_bar(|progress| Repair::plan(disk, progress)).map_err(|why| match why {
        CliError::Local(why) => CliError::Local(format!(
            "nothing was repaired: {why} (a server that uses the folder must be stopped first)"
        )),
        other => other,
    })?;
    let names = names(repair.inspection());
    if yes {
        repair.apply().map_err(|why| CliError::Local(format!("{why}: start the repair again")))?;
    }
    match folder.output {
        Format::Json => print_json(&as_json(&repair, &names, yes))?,
        Format::Table => print(&as_text(&repair, &names, yes))?,
    }
    match repair.damage.len() {
        0 => Ok(()),
        1 => Err(CliError::Local("1 place stays damaged: its range is off line, all else is served".to_owned())),
        count => Err(CliError::Local(format!("{count} places stay damaged: their ranges are off line"))),
    }
}

fn as_json(repair: &Repair, names: &Names, yes: bool) -> Value {
    let torn = |entry: &Torn| {
        let lost: Vec<Value> = entry
            .lost
            .iter()
            .map(|(log, first, last)| {
                json!({ "log": log.0, "name": name_of(names, *log), "first": first.0, "last": last.0 })
            })
            .collect();
        json!({
            "file": entry.file, "at": entry.at, "bytes": entry.bytes, "entry": entry.number,
            "whole": entry.whole, "lost": lost,
        })
    };
    let made = |made: &Rebuild| json!({ "file": made.file, "at": made.at, "what": made.what });
    json!({
        "done": yes,
        "torn": repair.torn.iter().map(torn).collect::<Vec<_>>(),
        "rebuilt": repair.rebuilds.iter().map(made).collect::<Vec<_>>(),
        "damage": repair.damage.iter().map(|one| row(one, names)).collect::<Vec<_>>(),
    })
}

fn as_text(repair: &Repair, names: &Names, yes: bool) -> String {
    let mut text = String::new();
    let mut say = |line: String| {
        text.extend(line.chars().filter(|c| !c.is_control())); // names come from users
        text.push('\n');
    };
    let (cut, makes) = if yes { ("cut off", "made again") } else { ("to be cut off", "to be made again") };
    for entry in &repair.torn {
        let state = if entry.whole { "whole, but an entry before it is not" } else { "half written" };
        say(format!("{cut}: {} at {}, {} bytes: entry {}, {state}", entry.file, entry.at, entry.bytes, entry.number));
        say("  nothing says that it was ever durable; no acknowledgement that names a sync covers it".to_owned());
        for (log, first, last) in &entry.lost {
            say(format!("  lost with it: {} offsets {first} to {last}", name_of(names, *log)));
        }
    }
    for made in &repair.rebuilds {
        say(format!("{makes}: {} at {}: {}", made.file, made.at, made.what));
    }
    for damage in &repair.damage {
        let hit: Vec<String> = damage.logs.iter().map(|log| name_of(names, *log)).collect();
        say(format!("left as it is: {} at {}: damaged; hits {}", damage.file, damage.at, hit.join(", ")));
    }
    if !repair.damage.is_empty() {
        say("What is damaged was acknowledged, so it is not touched: it is off line, and all else is served."
            .to_owned());
        say("To have it back, put a whole copy of the file in its place while the server is stopped.".to_owned());
        say("To go on without it: delete the topic's records up to its end, purge the queue, or delete either."
            .to_owned());
    }
    match (repair.is_needed(), yes) {
        (false, _) if repair.damage.is_empty() => say("nothing is damaged, nothing is torn".to_owned()),
        (false, _) => say("there is nothing to repair".to_owned()),
        (true, false) => say("nothing was changed: add --yes to do it".to_owned()),
        (true, true) => say("done".to_owned()),
    }
    text
}
