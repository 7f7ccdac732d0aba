//! The I/O system of a machine, made from its description: which drive model, which bus, which data
//! where. Everything is checked here, before a run begins; the run itself is `servsim_os::Storage`.

mod drives;
mod placement;
pub mod results;

use crate::error::SimulateError;
use drives::{Queued, Times};
use placement::Map;
use servsim_config::Machine;
use servsim_core::{DiskRequest, Drive, TaskSource};
use servsim_disk::models::file::from_bytes;
use servsim_disk::models::mechanical::Drive as KnownDrive;
use servsim_disk::models::{DeviceModel, Model};
use servsim_disk::server::{Discipline, Server};
use servsim_os::{Storage, Tenures};
use std::path::Path;

/// What drives the disks.
#[derive(Debug, Clone)]
enum DriveModel {
    Fixed(Times),
    Model(Box<DeviceModel>),
}

/// A described I/O system, for any number of runs.
#[derive(Debug, Clone)]
pub struct Plan {
    disks: usize,
    bus_of: Vec<usize>,
    buses: usize,
    tenures: Tenures,
    hertz: u64,
    model: DriveModel,
    discipline: Option<Discipline>,
    map: Map,
}

impl Plan {
    /// The I/O system of `machine` for a run of `source`; none if the machine has the pool of disks.
    ///
    /// # Errors
    /// When the model file cannot be used, or the placement names what the trace does not know: every
    /// fault at once.
    pub fn of(machine: &Machine, source: &dyn TaskSource) -> Result<Option<Self>, SimulateError> {
        let storage = &machine.storage;
        if storage.disks == 0 {
            return Ok(None);
        }
        let hertz = machine.clock.0;
        let (map, mut faults) = Map::new(storage, source.files(), source.devices());
        let model = drive_of(machine).map_err(|fault| faults.push(fault)).ok();
        let (Some(model), true) = (model, faults.is_empty()) else {
            return Err(SimulateError::Usage(faults.join("\n")));
        };
        Ok(Some(Self {
            disks: storage.disks,
            bus_of: storage.bus_of.clone(),
            buses: storage.buses,
            tenures: Tenures {
                overhead: storage.bus_overhead.to_cycles(machine.clock),
                rate: storage.bus_rate,
                hertz,
                hold_on_read: storage.hold_on_read,
                hold_on_write: storage.hold_on_write,
            },
            hertz,
            model,
            discipline: storage.scheduler.parse().ok(),
            map,
        }))
    }

    /// The disks and buses, idle. `seed` is that of the replication.
    pub(crate) fn build(&self, seed: u64) -> Storage<'_> {
        let drive = |disk: usize| {
            let drive: Box<dyn Drive + '_> = match &self.model {
                DriveModel::Fixed(times) => {
                    Box::new(Queued::fixed(*times, self.discipline.unwrap_or(Discipline::Fcfs)))
                }
                DriveModel::Model(model) => {
                    let discipline = self.discipline.unwrap_or(model.server.discipline);
                    Box::new(Queued::modelled(model, discipline, self.hertz, seed, disk))
                }
            };
            (drive, self.bus_of.get(disk).copied())
        };
        Storage::new((0..self.disks).map(drive).collect(), self.buses, self.tenures)
    }

    /// The parts of a request of the trace, by disk.
    pub(crate) fn locate(
        &self,
        device: u32,
        sector: u64,
        bytes: u64,
        write: bool,
    ) -> Vec<(usize, DiskRequest)> {
        self.map.locate(device, sector, bytes, write)
    }

    /// What lies at a sector: a number for [`Plan::names`].
    pub(crate) fn file_at(&self, device: u32, sector: u64) -> Option<usize> {
        self.map.file_at(device, sector)
    }

    /// Names of what lies on the disks, by number.
    pub(crate) fn names(&self) -> &[String] {
        self.map.names()
    }

    /// The bus of a disk.
    pub(crate) fn bus_of(&self, disk: usize) -> Option<usize> {
        self.bus_of.get(disk).copied()
    }
}

/// What is wrong with a machine's single disks that its description alone does not tell: a model that cannot be used.
pub fn fault_of(machine: &Machine) -> Option<String> {
    (machine.storage.disks > 0).then(|| drive_of(machine).err()).flatten()
}

fn drive_of(machine: &Machine) -> Result<DriveModel, String> {
    let times = Times {
        read: machine.disk_read.to_cycles(machine.clock),
        write: machine.disk_write.to_cycles(machine.clock),
        medium: machine.storage.medium,
        hertz: machine.clock.0,
    };
    model_of(&machine.storage.model, times).map_err(|fault| format!("disk.model: {fault}"))
}

/// `fixed`, a known drive, or the one model of a file.
fn model_of(name: &str, times: Times) -> Result<DriveModel, String> {
    if name == "fixed" {
        return Ok(DriveModel::Fixed(times));
    }
    if let Some(drive) = KnownDrive::by_name(name) {
        let (device, model) = (drive.name.clone(), Model::Mechanical(drive));
        let known = DeviceModel { device, server: Server::FCFS, inference: None, training: None, model };
        return Ok(DriveModel::Model(Box::new(known)));
    }
    let (file, device) = name.split_once('#').map_or((name, None), |(file, device)| (file, Some(device)));
    let bytes = std::fs::read(Path::new(file)).map_err(|error| {
        format!("`{file}` is neither fixed, hp97560, hp335h nor a model file that can be read: {error}")
    })?;
    let models = from_bytes(&bytes).map_err(|error| format!("{file}: {error}"))?;
    let names: Vec<&str> = models.iter().map(|model| model.device.as_str()).collect();
    let found = match device {
        Some(device) => names.iter().position(|name| *name == device),
        None => (models.len() == 1).then_some(0),
    };
    let Some(model) = found.map(|at| models[at].clone()) else {
        let names = names.join(", ");
        return Err(format!("{file} holds models of {names}; name one of them, as {file}#DEVICE"));
    };
    if model.model.as_service().is_none() {
        return Err(format!(
            "{name} is a `{}` model, which predicts whole responses with the waiting of its own trace in \
             them; fit a `forest`",
            model.model.kind()
        ));
    }
    model.check_worth().map_err(|error| format!("{name}: {error}"))?;
    Ok(DriveModel::Model(Box::new(model)))
}
