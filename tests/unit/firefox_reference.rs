// SPDX-License-Identifier: GPL-2.0-or-later
// What firefox_reference.json was made with, to compare our files with: a wait in a stack of two functions, and a marker,
// as the Firefox Profiler's authors write them.  A Cargo.toml with fxprof-processed-profile = "=0.8.1" and
// serde_json = "1", this as src/main.rs, and `cargo run >firefox_reference.json` make it again.
use fxprof_processed_profile::*;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A wait, as lockline's markers are.
struct LockWait { lock: StringHandle, kind: StringHandle }
impl StaticSchemaMarker for LockWait {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "LockWait";
    const LOCATIONS: MarkerLocations = MarkerLocations::MARKER_CHART.union(MarkerLocations::MARKER_TABLE);
    const TOOLTIP_LABEL: Option<&'static str> = Some("waits for {marker.data.lock}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.data.lock} ({marker.data.kind})");
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.lock}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[
        StaticSchemaMarkerField { key: "lock", label: "Lock", format: MarkerFieldFormat::String, flags: MarkerFieldFlags::SEARCHABLE },
        StaticSchemaMarkerField { key: "kind", label: "Kind", format: MarkerFieldFormat::String, flags: MarkerFieldFlags::SEARCHABLE },
    ];
    fn name(&self, p: &mut Profile) -> StringHandle { p.intern_string("waits for a lock") }
    fn category(&self, _p: &mut Profile) -> CategoryHandle { CategoryHandle::OTHER }
    fn string_field_value(&self, i: u32) -> StringHandle { if i == 0 { self.lock } else { self.kind } }
    fn number_field_value(&self, _i: u32) -> f64 { 0.0 }
}

fn main() {
    let start = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let mut profile = Profile::new("program", SystemTime::from(start).into(), SamplingInterval::from_millis(1));
    let process = profile.add_process("program", 7, Timestamp::from_millis_since_reference(0.0));
    let thread = profile.add_thread(process, 7, Timestamp::from_millis_since_reference(0.0), true);
    profile.set_thread_name(thread, "program");
    let frames: Vec<_> = ["outer", "inner"].iter().map(|name| FrameInfo {
        frame: Frame::Label(profile.intern_string(name)), category_pair: CategoryHandle::OTHER.into(), flags: FrameFlags::empty(),
    }).collect();
    let stack = profile.intern_stack_frames(thread, frames.into_iter());
    profile.set_thread_samples_weight_type(thread, WeightType::TracingMs);
    profile.add_sample(thread, Timestamp::from_millis_since_reference(1.0), stack, CpuDelta::ZERO, 5);
    let (lock, kind) = (profile.intern_string("lock"), profile.intern_string("mutex"));
    profile.add_marker(thread, MarkerTiming::Interval(Timestamp::from_millis_since_reference(1.0), Timestamp::from_millis_since_reference(6.0)), LockWait { lock, kind });
    println!("{}", serde_json::to_string_pretty(&profile).unwrap());
}
