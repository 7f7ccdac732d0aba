//! Groups of processes as the kernel has them: cgroup v2 with its controller of processors and memory nodes.

use super::step::Step;
use super::{Partition, REST};
use crate::error::RsetError;
use crate::set::ResourceSet;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// What folders of ours begin with.
const PREFIX: &str = "servsim.";

/// Where groups are made: the top of the hierarchy.
#[derive(Debug)]
pub(super) struct Groups {
    top: PathBuf,
}

/// Whether a partition may be called so.
pub(super) fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=32).contains(&name.len()) && name.bytes().all(fits)
}

impl Groups {
    pub fn find() -> Result<Self, RsetError> {
        let mounts = text(&PathBuf::from("/proc/self/mounts"))?;
        let tops = mounts.lines().filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let (place, kind) = (fields.nth(1)?, fields.next()?);
            (kind == "cgroup2").then(|| PathBuf::from(place))
        });
        for top in tops {
            let controllers = text(&top.join("cgroup.controllers"))?;
            if controllers.split_ascii_whitespace().any(|controller| controller == "cpuset") {
                return Ok(Self { top });
            }
        }
        Err(RsetError::NoPartitions)
    }

    fn folder(&self, name: &str) -> PathBuf {
        if name == REST {
            self.top.clone()
        } else {
            self.top.join(format!("{PREFIX}{name}"))
        }
    }

    pub fn names(&self) -> Result<Vec<String>, RsetError> {
        let wrong = |source| RsetError::File { path: self.top.display().to_string(), source };
        let mut names: Vec<String> = fs::read_dir(&self.top)
            .map_err(wrong)?
            .flatten()
            .filter_map(|entry| Some(entry.file_name().to_str()?.strip_prefix(PREFIX)?.to_owned()))
            .collect();
        names.sort();
        Ok(names)
    }

    pub fn read(&self, name: &str) -> Result<Partition, RsetError> {
        let folder = self.folder(name);
        let set = ResourceSet {
            processors: parsed(&folder.join("cpuset.cpus"))?,
            nodes: parsed(&folder.join("cpuset.mems"))?,
        };
        Ok(Partition {
            set,
            processes: self.processes(name)?,
            processor_time: used(&folder.join("cpu.stat"))?,
        })
    }

    fn processes(&self, name: &str) -> Result<Vec<i32>, RsetError> {
        let listed = text(&self.folder(name).join("cgroup.procs"))?;
        Ok(listed.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Hands the controller down, unless it already is.
    pub fn enable(&self) -> Result<Vec<Step>, RsetError> {
        let path = self.top.join("cgroup.subtree_control");
        let handed_down = text(&path)?.split_ascii_whitespace().any(|controller| controller == "cpuset");
        Ok(if handed_down { Vec::new() } else { vec![Step::write(&path, "+cpuset")] })
    }

    pub fn make(&self, name: &str, set: &ResourceSet) -> Vec<Step> {
        let folder = self.folder(name);
        let own = folder.join("cpuset.cpus.partition");
        let mut steps = vec![Step::Make { path: folder }];
        steps.extend(self.grow(name, set));
        steps.push(Step::Write { path: own, value: "root".into(), becomes: Some("root".into()) });
        steps
    }

    /// Processors first: memory that comes is near who uses it.
    pub fn grow(&self, name: &str, set: &ResourceSet) -> Vec<Step> {
        vec![self.processors(name, set), self.memory(name, set)]
    }

    /// Memory first: the processors that go help to move it.
    pub fn shrink(&self, name: &str, set: &ResourceSet) -> Vec<Step> {
        vec![self.memory(name, set), self.processors(name, set), self.gather(name, set)]
    }

    /// Collects the memory of a group's processes in its nodes.
    pub fn gather(&self, name: &str, set: &ResourceSet) -> Step {
        Step::Gather { path: self.folder(name), nodes: set.nodes.to_string() }
    }

    fn processors(&self, name: &str, set: &ResourceSet) -> Step {
        let value = set.processors.to_string();
        Step::Write { path: self.folder(name).join("cpuset.cpus"), becomes: Some(value.clone()), value }
    }

    fn memory(&self, name: &str, set: &ResourceSet) -> Step {
        let value = set.nodes.to_string();
        Step::Write { path: self.folder(name).join("cpuset.mems"), becomes: Some(value.clone()), value }
    }

    pub fn adopt(&self, process: i32, name: &str) -> Step {
        Step::write(&self.folder(name).join("cgroup.procs"), process.to_string())
    }

    /// What takes a step back, given how things are now; nothing for what goes with its group.
    pub fn inverse(&self, done: &Step) -> Result<Vec<Step>, RsetError> {
        match done {
            Step::Make { path } if path.is_dir() => {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let name = name.strip_prefix(PREFIX).unwrap_or_default();
                let mut steps: Vec<Step> =
                    self.processes(name)?.into_iter().map(|process| self.adopt(process, REST)).collect();
                // The kernel gives the processors of a removed group back some time after it: so it returns them before.
                let own = path.join("cpuset.cpus.partition");
                if own.exists() {
                    steps.push(Step::write(&own, "member"));
                }
                steps.push(Step::Remove { path: path.clone() });
                Ok(steps)
            }
            // Others may have groups that need the controller by now: then it stays.
            Step::Write { path, value, .. } if value == "+cpuset" && !self.is_needed()? => {
                Ok(vec![Step::write(path, "-cpuset")])
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Whether any group below the top has processors or nodes of its own.
    fn is_needed(&self) -> Result<bool, RsetError> {
        let wrong = |source| RsetError::File { path: self.top.display().to_string(), source };
        let own = |folder: &PathBuf, file: &str| {
            fs::read_to_string(folder.join(file)).is_ok_and(|text| !text.trim().is_empty())
        };
        Ok(fs::read_dir(&self.top)
            .map_err(wrong)?
            .flatten()
            .map(|entry| entry.path())
            .any(|folder| own(&folder, "cpuset.cpus") || own(&folder, "cpuset.mems")))
    }
}

/// Processor time from a group's `cpu.stat`, which every group has whatever controls it.
fn used(path: &PathBuf) -> Result<Duration, RsetError> {
    let text = text(path)?;
    let microseconds = text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.trim().parse().ok());
    microseconds.map(Duration::from_micros).ok_or_else(|| RsetError::Unreadable {
        what: format!("usage_usec in {}", path.display()),
        text: text.lines().next().unwrap_or_default().to_owned(),
    })
}

fn text(path: &PathBuf) -> Result<String, RsetError> {
    fs::read_to_string(path).map_err(|source| RsetError::File { path: path.display().to_string(), source })
}

fn parsed<T: FromStr<Err = RsetError>>(path: &PathBuf) -> Result<T, RsetError> {
    text(path)?.trim().parse()
}
