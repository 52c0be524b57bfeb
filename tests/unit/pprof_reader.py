# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads pprof's files by the protobuf library; fields and numbers are those of its profile.proto."""

import gzip
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_TYPES = {
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "uint64": descriptor_pb2.FieldDescriptorProto.TYPE_UINT64,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
}
# "*" is a repeated field.
_MESSAGES = {
    "Profile": (
        "1 *ValueType sample_type, 2 *Sample sample, 3 *Mapping mapping, 4 *Location location, 5 *Function function,"
        " 6 *string string_table, 7 int64 drop_frames, 8 int64 keep_frames, 9 int64 time_nanos,"
        " 10 int64 duration_nanos, 11 ValueType period_type, 12 int64 period, 13 *int64 comment,"
        " 14 int64 default_sample_type"
    ),
    "ValueType": "1 int64 type, 2 int64 unit",
    "Sample": "1 *uint64 location_id, 2 *int64 value, 3 *Label label",
    "Label": "1 int64 key, 2 int64 str, 3 int64 num, 4 int64 num_unit",
    "Mapping": (
        "1 uint64 id, 2 uint64 memory_start, 3 uint64 memory_limit, 4 uint64 file_offset, 5 int64 filename,"
        " 6 int64 build_id, 7 bool has_functions, 8 bool has_filenames, 9 bool has_line_numbers,"
        " 10 bool has_inline_frames"
    ),
    "Location": "1 uint64 id, 2 uint64 mapping_id, 3 uint64 address, 4 *Line line, 5 bool is_folded",
    "Line": "1 uint64 function_id, 2 int64 line, 3 int64 column",
    "Function": "1 uint64 id, 2 int64 name, 3 int64 system_name, 4 int64 filename, 5 int64 start_line",
}


def _profile_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="perftools.profiles", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in fields.split(","):
            number, kind, field = text.split()
            many, kind = kind.startswith("*"), kind.lstrip("*")
            label = "LABEL_REPEATED" if many else "LABEL_OPTIONAL"
            added = message.field.add(
                name=field, number=int(number), label=getattr(descriptor_pb2.FieldDescriptorProto, label)
            )
            if kind in _TYPES:
                added.type = _TYPES[kind]
            else:
                added.type = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
                added.type_name = f".perftools.profiles.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("perftools.profiles.Profile"))


class Pprof:
    """A profile with its texts in place of their numbers."""

    def __init__(self, path: Path) -> None:
        self.raw = _profile_class()()
        self.raw.ParseFromString(gzip.decompress(path.read_bytes()))
        texts = self.texts = list(self.raw.string_table)
        functions = {function.id: texts[function.name] for function in self.raw.function}
        self.mappings = {mapping.id: texts[mapping.filename] for mapping in self.raw.mapping}
        self.locations = {
            location.id: (functions[location.line[0].function_id], self.mappings[location.mapping_id], location.address)
            for location in self.raw.location
        }
        self.types = [(texts[kind.type], texts[kind.unit]) for kind in self.raw.sample_type]
        # Functions from the leaf on, values, labels.
        self.samples = [
            (
                [self.locations[location][0] for location in sample.location_id],
                list(sample.value),
                {texts[label.key]: texts[label.str] for label in sample.label},
            )
            for sample in self.raw.sample
        ]
