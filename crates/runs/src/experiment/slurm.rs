//! Runs as tasks of Slurm's job arrays.
//!
//! A call becomes one array, or several where Slurm's `MaxArraySize` is less than it has runs. Ahead of the time limit
//! Slurm sends a signal: the run stores what it has, the task requeues itself and goes on to the bit. A task that is
//! preempted or whose node fails is requeued by Slurm.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::process::{Command, Output};

use serde::{Deserialize, Serialize};

use super::call::Call;
use super::launch::{Launcher, Says};
use super::{ExperimentError, last_line};
use crate::files;
use crate::lock::TASK;
use crate::shell::{printable, quote};

/// The arrays of a call, as it keeps them.
const ARRAYS: &str = "slurm.json";
const SCRIPT: &str = "job.sh";

/// Seconds ahead of the time limit at which a run is told, where there is that much time.
const AHEAD: u64 = 120;

/// An array of tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Array {
    /// Slurm's number of it.
    job: u64,
    /// What a task adds to its own number to find its run.
    first: usize,
    /// The runs.
    runs: Vec<usize>,
}

/// Slurm, by its commands.
pub struct Slurm {
    program: Vec<OsString>,
}

impl Slurm {
    /// Whoever is asked next: nothing is kept but in the call.
    pub fn new(program: Vec<OsString>) -> Self {
        Self { program }
    }

    fn submit(
        &self,
        call: &Call,
        runs: &[(usize, &str)],
        arrays: &mut Vec<Array>,
    ) -> Result<(), ExperimentError> {
        call.keep(SCRIPT, script(call, &self.program)?.as_bytes())?;
        let runs: Vec<usize> = runs.iter().map(|(run, _)| *run).collect();
        for (first, runs) in pieces(&runs, most()?) {
            let after = arrays.last().map(|array: &Array| array.job);
            let said = ask("sbatch", submission(call, first, &runs, after))?;
            // The number, and the cluster's name where there are several.
            let number = said.trim().split(';').next().and_then(|number| number.parse().ok());
            let job = number.ok_or_else(|| failed("sbatch", &said))?;
            arrays.push(Array { job, first, runs });
            let kept = call.keep(ARRAYS, &serde_json::to_vec(arrays).expect("plain data"));
            kept.inspect_err(|_| {
                // Nobody would know of it.
                let _ = ask("scancel", [job.to_string()]);
                arrays.pop();
            })?;
        }
        Ok(())
    }

    /// What it calls the runs of the call that it was given.
    pub fn name(&self, call: &Call) -> Result<String, ExperimentError> {
        let arrays = arrays(call)?;
        let jobs: Vec<String> = arrays.iter().map(|array| array.job.to_string()).collect();
        Ok(format!("job {}", jobs.join(", ")))
    }

    /// The script that it would submit for the call, and how.
    pub fn plan(&self, call: &Call) -> Result<String, ExperimentError> {
        let mut text = script(call, &self.program)? + "\n";
        // Slurm's own default, where there is no Slurm to ask.
        for (first, runs) in pieces(&call.asked.runs, most().unwrap_or(1001)) {
            let words = submission(call, first, &runs, None);
            let words: Vec<String> =
                words.iter().map(|word| quote(&word.to_string_lossy())).collect();
            let _ = writeln!(text, "# sbatch {}", words.join(" "));
        }
        Ok(text)
    }
}

impl Launcher for Slurm {
    fn start(&mut self, call: &Call, runs: &[(usize, &str)]) -> Result<(), ExperimentError> {
        let mut arrays = arrays(call)?;
        let submitted = self.submit(call, runs, &mut arrays);
        if submitted.is_err() && arrays.is_empty() {
            call.forget();
        }
        submitted
    }

    fn look(&mut self, call: &Call) -> Result<HashMap<usize, Says>, ExperimentError> {
        let arrays = arrays(call)?;
        let jobs: Vec<String> = arrays.iter().map(|array| array.job.to_string()).collect();
        if jobs.is_empty() {
            return Ok(HashMap::new());
        }
        let jobs = format!("--jobs={}", jobs.join(","));
        // Where there is accounting it remembers what the queue has forgotten.
        let format = "--format=JobID%64,State%64,NodeList%64";
        let accounted = run("sacct", ["--noheader", "--parsable2", "--allocations", &jobs, format]);
        let mut said = HashMap::new();
        if let Ok(output) = accounted
            && output.status.success()
        {
            hear(&String::from_utf8_lossy(&output.stdout), &arrays, &mut said);
        }
        let format = "--format=%F_%K|%T|%N|%r";
        let queue = ["--noheader", "--array", "--states=all", &jobs, format];
        match ask("squeue", queue) {
            Ok(text) => hear(&text, &arrays, &mut said),
            // It forgets a job a few minutes after its end.
            Err(error) if error.to_string().contains("Invalid job id") => {}
            // Elsewhere than on the cluster, the runs' folders tell what they can.
            Err(_) if run("squeue", ["--version"]).is_err() => {}
            Err(error) => return Err(error),
        }
        // What a task that failed said last, such as that it had no more memory.
        for (run, says) in &mut said {
            let Says::Ended(Some(fault)) = says else { continue };
            let array = arrays.iter().rfind(|array| array.runs.contains(run));
            let log = array
                .map(|Array { job, first, .. }| call.file(&format!("{job}_{}.txt", run - first)));
            if let Some(last) = log.and_then(|log| last_line(&log)) {
                *fault += &format!(": {last}");
            }
        }
        Ok(said)
    }

    fn stop(&mut self, call: &Call) -> Result<(), ExperimentError> {
        let jobs: Vec<String> = arrays(call)?.iter().map(|array| array.job.to_string()).collect();
        if jobs.is_empty() {
            return Ok(());
        }
        match ask("scancel", ["--quiet"].into_iter().chain(jobs.iter().map(String::as_str))) {
            Err(error) if !error.to_string().contains("Invalid job id") => Err(error),
            _ => Ok(()),
        }
    }
}

/// The arrays submitted for a call so far.
fn arrays(call: &Call) -> Result<Vec<Array>, ExperimentError> {
    let path = call.file(ARRAYS);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let read = files::read_text(&path).map_err(|error| error.to_string());
    let parsed = read.and_then(|text| serde_json::from_str(&text).map_err(|e| e.to_string()));
    parsed.map_err(|error| ExperimentError::Call { path, error })
}

/// The script of a call's arrays; the first word after its name is what a task adds to its number.
fn script(call: &Call, program: &[OsString]) -> Result<String, ExperimentError> {
    let asked = &call.asked;
    let text = |word: &OsStr| match word.to_str() {
        Some(text) if !text.contains(['\n', '\\']) => Ok(text.to_owned()),
        _ => Err(ExperimentError::Start(format!(
            "{}: Slurm takes no such name; expected UTF-8 on one line, without a backslash",
            printable(&word.to_string_lossy())
        ))),
    };
    let name = call.out.file_name().map_or(Ok("ecrl".to_owned()), text)?;
    let output = text(call.file("%A_%a.txt").as_os_str())?;
    // Slurm's own letters are those of the last part alone.
    let output = match output.rsplit_once('/') {
        Some((folder, file)) => format!("{}/{file}", folder.replace('%', "%%")),
        None => output,
    };
    let mut options = vec![
        format!("--job-name={name}"),
        format!("--chdir={}", text(asked.from.as_os_str())?),
        format!("--output={output}"),
        "--open-mode=append".to_owned(),
        "--requeue".to_owned(),
        format!("--cpus-per-task={}", asked.threads),
        format!("--signal=B:USR1@{}", ahead(&asked.options)),
    ];
    options.extend(asked.options.iter().cloned());
    let options: String =
        options.iter().map(|option| format!("#SBATCH {}\n", quote(option))).collect();
    let words = call.command(program);
    let words = words.iter().map(|word| Ok(quote(&text(word)?)));
    let command = words.collect::<Result<Vec<String>, ExperimentError>>()?.join(" ");
    Ok(format!(
        "#!/bin/sh
# Each task of this array makes one run of {name}, or goes on with it.
{options}
# Whoever comes after this task's end knows that it has ended.
export {TASK}=\"slurm:${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID\"
again=
# The time limit is near: the run stores what it has, and the task goes on in the queue.
trap 'again=yes; kill -TERM \"$run\"' USR1
# Preempted, requeued or cancelled: the run stores what it has.
trap 'kill -TERM \"$run\"' TERM
{command} $((SLURM_ARRAY_TASK_ID + ${{1:-0}})) &
run=$!
# A signal ends a wait before the run has ended.
while :; do
  wait \"$run\"
  code=$?
  kill -0 \"$run\" 2>/dev/null || break
done
if [ \"$again\" ] && [ \"$code\" -gt 128 ]; then
  exec scontrol requeue \"${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID\"
fi
exit \"$code\"
"
    ))
}

/// What is said to `sbatch`, for some runs of a call; `after` is the array before them.
fn submission(call: &Call, first: usize, runs: &[usize], after: Option<u64>) -> Vec<OsString> {
    let tasks: Vec<usize> = runs.iter().map(|run| run - first).collect();
    let at_once = call.asked.at_once.map_or(String::new(), |most| format!("%{most}"));
    let mut words =
        vec!["--parsable".into(), format!("--array={}{at_once}", ranges(&tasks)).into()];
    // Arrays know nothing of each other: one after the other, no more run at once than asked for.
    if let (Some(after), Some(_)) = (after, call.asked.at_once) {
        words.push(format!("--dependency=afterany:{after}").into());
    }
    words.push(call.file(SCRIPT).into());
    words.push(first.to_string().into());
    words
}

/// Numbers as Slurm writes them: 0-3,7.
fn ranges(numbers: &[usize]) -> String {
    let mut text = String::new();
    let mut rest = numbers;
    while let Some((&from, _)) = rest.split_first() {
        let length = rest.iter().enumerate().take_while(|(i, n)| **n == from + i).count();
        let comma = if text.is_empty() { "" } else { "," };
        let _ = match length {
            1 => write!(text, "{comma}{from}"),
            _ => write!(text, "{comma}{from}-{}", from + length - 1),
        };
        rest = &rest[length..];
    }
    text
}

/// Runs in arrays of which none has a number beyond what Slurm takes, each with its first number.
fn pieces(runs: &[usize], most: usize) -> Vec<(usize, Vec<usize>)> {
    let chunks = runs.chunk_by(|a, b| a / most == b / most);
    chunks.map(|chunk| (chunk[0] / most * most, chunk.to_vec())).collect()
}

/// How many numbers an array's tasks may have, from 0 on.
fn most() -> Result<usize, ExperimentError> {
    let text = ask("scontrol", ["show", "config"])?;
    let line = text.lines().find_map(|line| line.trim().strip_prefix("MaxArraySize"));
    let number = line.and_then(|rest| rest.trim_start_matches([' ', '=']).trim().parse().ok());
    number.filter(|most| *most > 0).ok_or_else(|| failed("scontrol show config", &text))
}

/// Seconds ahead of the time limit: less than usual where there are but minutes.
fn ahead(options: &[String]) -> u64 {
    let value = |option: &String| {
        ["--time=", "-t"].iter().find_map(|name| option.strip_prefix(name).map(str::to_owned))
    };
    let limit = options.iter().rev().find_map(value).and_then(|text| seconds(&text));
    limit.map_or(AHEAD, |limit| AHEAD.min(limit / 4).max(1))
}

/// Slurm's times: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes and
/// days-hours:minutes:seconds.
fn seconds(text: &str) -> Option<u64> {
    let (days, rest) = text.split_once('-').map_or((None, text), |(days, rest)| (Some(days), rest));
    let parts: Vec<u64> = rest.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [h, m, s] = match (days, &parts[..]) {
        (None, [m]) => [0, *m, 0],
        (None, [m, s]) => [0, *m, *s],
        (Some(_), [h]) => [*h, 0, 0],
        (Some(_), [h, m]) => [*h, *m, 0],
        (_, [h, m, s]) => [*h, *m, *s],
        _ => return None,
    };
    let days: u64 = days.map_or(Some(0), |days| days.parse().ok())?;
    Some(((days * 24 + h) * 60 + m) * 60 + s)
}

/// Takes note of lines `JOB_TASK|STATE|NODES` with or without a reason at the end.
fn hear(text: &str, arrays: &[Array], said: &mut HashMap<usize, Says>) {
    for line in text.lines() {
        let parts: Vec<&str> = line.trim().split('|').collect();
        let [id, state, node, rest @ ..] = &parts[..] else { continue };
        let Some((job, task)) = id.split_once('_') else { continue };
        let array = arrays.iter().find(|array| array.job.to_string() == job);
        // Those yet to come may stand on one line, as 12_[4-9%2].
        let (Some(array), Ok(task)) = (array, task.parse::<usize>()) else { continue };
        let why = rest.first().filter(|why| **why != "None").unwrap_or(&"").to_string();
        said.insert(array.first + task, says(state, node, why));
    }
}

/// What a state of Slurm's says, as squeue and sacct write it.
fn says(state: &str, node: &str, why: String) -> Says {
    // `CANCELLED by 1000`
    match state.split_whitespace().next().unwrap_or_default() {
        "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD"
        | "RESV_DEL_HOLD" | "SPECIAL_EXIT" | "SUSPENDED" => Says::Waiting(why),
        "RUNNING" | "COMPLETING" | "SIGNALING" | "STAGE_OUT" | "STOPPED" | "RESIZING" => {
            Says::Running(node.to_owned())
        }
        "COMPLETED" | "CANCELLED" => Says::Ended(None),
        fault => Says::Ended(Some(fault.to_lowercase().replace('_', " "))),
    }
}

fn run(
    program: &str,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<Output, ExperimentError> {
    let ran = Command::new(program).args(arguments).output();
    ran.map_err(|error| {
        ExperimentError::Start(format!("{program}: {error}: expected Slurm's commands in PATH"))
    })
}

fn ask(
    program: &str,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<String, ExperimentError> {
    let output = run(program, arguments)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(failed(program, &String::from_utf8_lossy(&output.stderr))),
    }
}

/// What an engine's command said, on one line.
fn failed(program: &str, said: &str) -> ExperimentError {
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let said: Vec<&str> = lines.take(3).collect();
    let said = if said.is_empty() { "it said nothing".into() } else { said.join("; ") };
    ExperimentError::Start(format!("{program}: {}", printable(said.trim_start_matches("error: "))))
}

#[cfg(test)]
mod tests;
