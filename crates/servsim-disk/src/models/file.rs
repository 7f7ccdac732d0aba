//! The model file: `SSDM1\n`, the length of a JSON heading as u32, the heading, then arrays.
//!
//! The heading describes every device and names its arrays with offset (in bytes after the heading),
//! length and type, so the file can be inspected without this program; a 64-bit FNV-1a checksum of
//! the arrays is in the heading too. Little endian. Hostile files are refused, never trusted.

use super::forest::Forest;
use super::grow::{Growth, Node};
use super::paper::Paper;
use super::support::Support;
use super::tail::Tail;
use super::unconditional::Unconditional;
use super::{DeviceModel, Model, Training};
use crate::cache::Law;
use crate::error::ModelError;
use crate::features::FEATURES;
use crate::mechanics::Radius;
use crate::platters::Platters;
use crate::server::infer::Inference;
use crate::server::Server;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

const MAGIC: &[u8; 6] = b"SSDM1\n";
/// No request takes longer (11 days).
pub(super) const LONGEST_US: f64 = 1e12;

#[derive(Serialize, Deserialize)]
struct Heading {
    schema: String,
    checksum: String,
    devices: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    device: String,
    kind: String,
    server: Server,
    inference: Option<Inference>,
    training: Option<Training>,
    parameters: Value,
    arrays: Vec<Array>,
}

#[derive(Serialize, Deserialize)]
struct Array {
    name: String,
    offset: usize,
    length: usize,
    #[serde(rename = "type")]
    width: Width,
}

#[derive(Serialize, Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Width {
    F32,
    U32,
    I64,
}

/// What the trees of a forest need beside their arrays.
#[derive(Serialize, Deserialize)]
struct ForestParameters {
    tail: Option<Tail>,
    support: Support,
    #[serde(default)]
    cache: Option<Law>,
    #[serde(default)]
    radius: Option<Radius>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    platters: Option<Platters>,
    importance: [f64; FEATURES],
    trees: usize,
    minimum_leaf: usize,
    tried_features: usize,
    allowed: u32,
    depth_limit: u32,
}

fn checksum(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

fn bad(problem: impl Into<String>) -> ModelError {
    ModelError::BadFile(problem.into())
}

/// Arrays being written.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    arrays: Vec<Array>,
}

impl Writer {
    fn push<const N: usize>(&mut self, name: &str, width: Width, items: impl Iterator<Item = [u8; N]>) {
        let offset = self.bytes.len();
        let mut length = 0;
        for item in items {
            self.bytes.extend_from_slice(&item);
            length += 1;
        }
        self.arrays.push(Array { name: name.to_owned(), offset, length, width });
    }
}

/// The models of all devices as the bytes of a file.
pub fn to_bytes(models: &[DeviceModel]) -> Vec<u8> {
    let mut writer = Writer::default();
    let devices = models.iter().map(|model| entry(model, &mut writer)).collect();
    let heading =
        Heading { schema: "servsim.disk.model/1".to_owned(), checksum: checksum(&writer.bytes), devices };
    let heading = serde_json::to_vec(&heading).expect("a heading is plain data");
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&(heading.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&heading);
    bytes.extend_from_slice(&writer.bytes);
    bytes
}

fn entry(model: &DeviceModel, writer: &mut Writer) -> Entry {
    let floats = |values: &[f32]| values.iter().map(|x| x.to_le_bytes()).collect::<Vec<_>>().into_iter();
    let words = |values: &[u32]| values.iter().map(|x| x.to_le_bytes()).collect::<Vec<_>>().into_iter();
    let parameters = match &model.model {
        Model::Forest(forest) => {
            writer.push(
                "node_thresholds",
                Width::F32,
                forest.nodes.iter().map(|node| node.threshold.to_le_bytes()),
            );
            writer.push("node_words", Width::U32, forest.nodes.iter().map(|node| node.packed.to_le_bytes()));
            writer.push("roots", Width::U32, words(&forest.roots));
            writer.push("leaf_starts", Width::U32, words(&forest.leaf_starts));
            writer.push("values_us", Width::F32, floats(&forest.values_us));
            serde_json::to_value(ForestParameters {
                tail: forest.tail,
                support: forest.support.clone(),
                cache: forest.cache,
                radius: forest.radius,
                platters: forest.platters.as_deref().cloned(),
                importance: forest.importance,
                trees: forest.growth.trees,
                minimum_leaf: forest.growth.minimum_leaf,
                tried_features: forest.growth.tried_features,
                allowed: forest.growth.allowed,
                depth_limit: forest.growth.depth_limit,
            })
        }
        Model::Paper(paper) => {
            writer.push("keys", Width::I64, paper.keys.iter().flatten().map(|x| x.to_le_bytes()));
            writer.push("starts", Width::U32, words(&paper.starts));
            writer.push("values_us", Width::F32, floats(&paper.values_us));
            Ok(Value::Null)
        }
        Model::Unconditional(unconditional) => {
            writer.push("values_us", Width::F32, floats(&unconditional.values_us));
            Ok(Value::Null)
        }
        Model::Parallel(parallel) => serde_json::to_value(parallel),
        Model::Mechanical(drive) => serde_json::to_value(drive),
        Model::Ssd(ssd) => serde_json::to_value(ssd),
    };
    Entry {
        device: model.device.clone(),
        kind: model.model.kind().to_owned(),
        server: model.server,
        inference: model.inference.clone(),
        training: model.training.clone(),
        parameters: parameters.expect("parameters are plain data"),
        arrays: std::mem::take(&mut writer.arrays),
    }
}

const CUT: &str = "it ends within its heading; fit or copy it again";

/// What bytes are that do not begin with [`MAGIC`].
fn stranger(bytes: &[u8]) -> &'static str {
    // The version is the last letter before the end of the line.
    if bytes.starts_with(&MAGIC[..MAGIC.len() - 2]) {
        "it is of another version than 1, the one that this servsim reads; fit it again with this servsim"
    } else {
        "it does not begin like a servsim disk model; name a file that `servsim disk fit` wrote"
    }
}

/// Reads what [`to_bytes`] wrote.
///
/// # Errors
/// [`ModelError::BadFile`] for anything else, and for a damaged file.
pub fn from_bytes(bytes: &[u8]) -> Result<Vec<DeviceModel>, ModelError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| bad(stranger(bytes)))?;
    let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(|| bad(CUT))?;
    let length = u32::from_le_bytes(*length) as usize;
    if rest.len() < length {
        return Err(bad(CUT));
    }
    let (heading, arrays) = rest.split_at(length);
    let heading: Heading =
        serde_json::from_slice(heading).map_err(|_| bad("its heading is damaged; fit or copy it again"))?;
    if heading.checksum != checksum(arrays) {
        return Err(bad("its checksum does not match: it is damaged; fit or copy it again"));
    }
    heading.devices.into_iter().map(|entry| device(entry, arrays)).collect()
}

/// The arrays of one device.
struct Reader<'a> {
    arrays: Vec<Array>,
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn items<const N: usize, T>(
        &self,
        name: &str,
        width: Width,
        from: impl Fn([u8; N]) -> T,
    ) -> Result<Vec<T>, ModelError> {
        let array = self.arrays.iter().find(|array| array.name == name && array.width == width);
        let array = array.ok_or_else(|| bad(format!("array `{name}` is missing")))?;
        let size = array.length.checked_mul(N).and_then(|size| array.offset.checked_add(size));
        let bytes = size
            .and_then(|end| self.bytes.get(array.offset..end))
            .ok_or_else(|| bad(format!("array `{name}` is cut off")))?;
        Ok(bytes.chunks_exact(N).map(|chunk| from(chunk.try_into().expect("N bytes"))).collect())
    }

    fn floats(&self, name: &str) -> Result<Vec<f32>, ModelError> {
        let values = self.items(name, Width::F32, f32::from_le_bytes)?;
        if values.iter().any(|value| !value.is_finite()) {
            return Err(bad(format!("array `{name}` holds a value that is no number")));
        }
        Ok(values)
    }

    /// The service or response times of a model.
    fn times_us(&self) -> Result<Vec<f32>, ModelError> {
        let values = self.floats("values_us")?;
        if values.iter().any(|&us| !(0.0..=LONGEST_US as f32).contains(&us)) {
            return Err(bad("it holds a time that is negative or longer than eleven days"));
        }
        Ok(values)
    }

    fn words(&self, name: &str) -> Result<Vec<u32>, ModelError> {
        self.items(name, Width::U32, u32::from_le_bytes)
    }
}

fn device(entry: Entry, bytes: &[u8]) -> Result<DeviceModel, ModelError> {
    let reader = Reader { arrays: entry.arrays, bytes };
    let parameters = entry.parameters;
    let model = match entry.kind.as_str() {
        "forest" => Model::Forest(forest(&reader, parameters)?),
        "paper" => {
            let keys = reader.items("keys", Width::I64, i64::from_le_bytes)?;
            let paper = Paper {
                keys: keys.chunks_exact(5).map(|key| key.try_into().expect("five parts")).collect(),
                starts: reader.words("starts")?,
                values_us: reader.times_us()?,
            };
            let last_is_device = paper.keys.last().is_some_and(|key| key[0] == 4);
            if !paper.keys.is_sorted() || !last_is_device {
                return Err(bad("the tables are not in order"));
            }
            check_starts(&paper.starts, paper.keys.len(), paper.values_us.len())?;
            Model::Paper(paper)
        }
        "unconditional" => {
            let values_us = reader.times_us()?;
            if values_us.is_empty() {
                return Err(bad("the histogram is empty"));
            }
            Model::Unconditional(Unconditional { values_us })
        }
        "parallel" => Model::Parallel(parse(parameters)?),
        "mechanical" => Model::Mechanical(parse(parameters)?),
        "ssd" => Model::Ssd(parse(parameters)?),
        other => return Err(bad(format!("it holds a model of unknown kind `{other}`"))),
    };
    let sound = match &model {
        Model::Parallel(parallel) => parallel.is_sound(),
        Model::Mechanical(drive) => drive.is_sound(),
        Model::Ssd(ssd) => ssd.is_sound(),
        Model::Forest(forest) => forest.tail.is_none_or(|tail| tail.is_sound()),
        Model::Paper(_) | Model::Unconditional(_) => true,
    };
    if !sound || entry.server.slots == 0 || entry.server.place_sectors == 0 {
        return Err(bad("its parameters are those of no device"));
    }
    Ok(DeviceModel {
        device: entry.device,
        server: entry.server,
        inference: entry.inference,
        training: entry.training,
        model,
    })
}

fn parse<T: serde::de::DeserializeOwned>(parameters: Value) -> Result<T, ModelError> {
    serde_json::from_value(parameters).map_err(|error| bad(format!("its parameters: {error}")))
}

/// Every part is non-empty and lies within the values.
fn check_starts(starts: &[u32], parts: usize, values: usize) -> Result<(), ModelError> {
    let rising = starts.windows(2).all(|pair| pair[0] < pair[1]);
    let ends = starts.first() == Some(&0) && starts.last().is_some_and(|&last| last as usize == values);
    if starts.len() == parts + 1 && rising && ends {
        Ok(())
    } else {
        Err(bad("the distributions do not fit their index"))
    }
}

fn forest(reader: &Reader<'_>, parameters: Value) -> Result<Forest, ModelError> {
    let parameters: ForestParameters = parse(parameters)?;
    let thresholds = reader.floats("node_thresholds")?;
    let words = reader.words("node_words")?;
    let forest = Forest {
        nodes: thresholds
            .into_iter()
            .zip(words)
            .map(|(threshold, packed)| Node { threshold, packed })
            .collect(),
        roots: reader.words("roots")?,
        leaf_starts: reader.words("leaf_starts")?,
        values_us: reader.times_us()?,
        tail: parameters.tail,
        support: parameters.support,
        cache: parameters.cache,
        radius: parameters.radius,
        platters: parameters.platters.map(Arc::new),
        importance: parameters.importance,
        growth: Growth {
            trees: parameters.trees,
            minimum_leaf: parameters.minimum_leaf,
            tried_features: parameters.tried_features,
            allowed: parameters.allowed,
            depth_limit: parameters.depth_limit,
        },
    };
    if forest.cache.is_some_and(|law| !law.is_sound())
        || forest.radius.is_some_and(|radius| !radius.is_sound())
        || forest.platters.as_ref().is_some_and(|platters| !platters.is_sound())
    {
        return Err(bad("what it says of the drive's cache, radius or platters is impossible"));
    }
    let leaves = forest.leaf_starts.len().saturating_sub(1);
    check_starts(&forest.leaf_starts, leaves, forest.values_us.len())?;
    let nodes = forest.nodes.len();
    // Children come after their parent: no walk can go round in a circle.
    let sound = forest.nodes.iter().enumerate().all(|(at, node)| {
        let child = node.child() as usize;
        match node.feature() {
            Node::LEAF => child < leaves,
            feature => (feature as usize) < FEATURES && child > at && child + 1 < nodes,
        }
    });
    if !sound || forest.roots.is_empty() || forest.roots.iter().any(|&root| root as usize >= nodes) {
        return Err(bad("the trees point outside themselves"));
    }
    Ok(forest)
}
