#!/usr/bin/env python3
"""Holds the files of `seawall .. --trace` to Perfetto's own definitions and, where its trace
processor can be had, to what that makes of them.

    python3 -m venv target/perfetto && target/perfetto/bin/pip install perfetto
    cargo build --release
    target/perfetto/bin/python scripts/traces-in-perfetto.py target/release/seawall

Each cell below is run with --trace and --json. The file must have only what Perfetto's protobuf
definitions know (the package has them), and the slices on the tracks of the cores must add up,
reason by reason, to the stalls of the record. Then the same is asked of the trace processor by SQL,
which must have found no error in the file. The package downloads that program when it is first
used; --shell FILE names one that is there. Without it, this part is left out, which the last line
says.

Exit codes: 0 all is right, 1 something is not, 2 it could not run.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

CELLS = [
    ["compare", "-w", "hash", "-d", "lbpp"],
    ["compare", "-w", "queue", "-d", "lb"],
    ["compare", "-w", "hash", "-d", "hops", "-m", "hops17"],
    ["compare", "-w", "hash", "-d", "asap", "-m", "asap22"],
    ["compare", "-w", "sps", "-d", "clwb", "-m", "optane24"],
    ["kernels", "radix:512", "-d", "bsp-lbpp"],
]
SHORT = ["--ops", "100", "--crashes", "2"]


def fail(text):
    print(f"WRONG: {text}")
    sys.exit(1)


def recorded(record):
    """The cycles of all cores by reason, which the record has as shares."""
    cycles = record["cycles"] * record["threads"]
    sums = {reason: round(share * cycles) for reason, share in record["stalls"].items()}
    return {reason: sum for reason, sum in sums.items() if sum}


def unknown_fields(message):
    """The numbers of fields that the definitions do not have, at any depth."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    found = [field.field_number for field in UnknownFieldSet(message)]
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            parts = value if field.is_repeated else [value]
            found += [number for part in parts for number in unknown_fields(part)]
    return found


def by_definitions(path):
    """Cycles by reason on the tracks of the cores, by Perfetto's definitions."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    unknown = unknown_fields(trace)
    if unknown:
        fail(f"{path.name} has fields that Perfetto does not know: {sorted(set(unknown))}")
    tracks, names, sums, open_at = {}, {}, collections.Counter(), {}
    for packet in trace.packet:
        for name in packet.interned_data.event_names:
            names[name.iid] = name.name
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
        event = packet.track_event
        if not packet.HasField("track_event") or not tracks[event.track_uuid].startswith("core "):
            continue
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            open_at[event.track_uuid] = (packet.timestamp, names[event.name_iid])
        elif event.type == TrackEvent.TYPE_SLICE_END:
            begun, name = open_at.pop(event.track_uuid)
            sums[name] += packet.timestamp - begun
    if open_at:
        fail(f"{path.name} has slices on cores that do not end")
    return dict(sums)


def by_trace_processor(path, shell, record):
    """The same by SQL, and whether all epochs and arrows are there."""
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    config = TraceProcessorConfig(bin_path=shell)
    with TraceProcessor(trace=str(path), config=config) as processor:
        def one(query):
            return list(processor.query(query))[0].n

        errors = one(
            "select ifnull(sum(value), 0) as n from stats "
            "where severity in ('error', 'data_loss')"
        )
        if errors:
            fail(f"{path.name}: the trace processor counts {errors} errors")
        rows = processor.query(
            "select s.name as reason, sum(s.dur) as cycles from slice s join track t "
            "on s.track_id = t.id where t.name glob 'core *' and s.dur > 0 group by 1"
        )
        sums = {row.reason: row.cycles for row in rows}
        dependences = one("select count(*) as n from slice where name = 'depends on'")
        arrows = one(
            "select count(*) as n from flow f join slice s on f.slice_in = s.id "
            "where s.name = 'depends on'"
        )
        if not dependences == arrows == record["counters"]["dependences"]:
            fail(f"{path.name}: {dependences} dependences, {arrows} arrows")
        writes = one("select count(*) as n from slice where name = 'write'")
        if writes != record["counters"]["line_writes"]:
            fail(f"{path.name}: {writes} writes")
        if one("select count(*) as n from slice where dur < 0 and name = 'busy'"):
            fail(f"{path.name}: a core is busy for ever")
    return sums


def trace_processor(shell):
    """Whether there is a trace processor."""
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    try:
        with TraceProcessor(config=TraceProcessorConfig(bin_path=shell)):
            return True
    except Exception as error:  # of any kind: the package downloads, unpacks and starts it
        print(f"no trace processor ({type(error).__name__}: {error})", file=sys.stderr)
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("seawall", type=pathlib.Path, help="the command")
    parser.add_argument("--shell", help="a trace_processor_shell that is there")
    options = parser.parse_args()
    try:
        import perfetto.trace_processor  # noqa: F401
    except ImportError:
        print("the package perfetto is missing: pip install perfetto", file=sys.stderr)
        return 2
    has_processor = trace_processor(options.shell)
    with tempfile.TemporaryDirectory() as folder:
        trace, out = pathlib.Path(folder, "run.perfetto"), pathlib.Path(folder, "run.json")
        for cell in CELLS:
            line = [str(options.seawall), *cell, *(SHORT if cell[0] == "compare" else SHORT[2:])]
            print(" ".join(line[1:]))
            subprocess.run(
                [*line, "--trace", trace, "--json", out], check=True, capture_output=True
            )
            design = cell[cell.index("-d") + 1]
            records = [json.loads(text) for text in out.read_text().splitlines()]
            [record] = [record for record in records if record["design"] == design]
            wanted, found = recorded(record), by_definitions(trace)
            if found != wanted:
                fail(f"slices add up to {found}, and the record has {wanted}")
            if has_processor:
                found = by_trace_processor(trace, options.shell, record)
                if found != wanted:
                    fail(f"the trace processor adds {found}, and the record has {wanted}")
    by = "its definitions and its trace processor" if has_processor else "its definitions alone"
    print(f"{len(CELLS)} files are right, by {by}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
