"""The commands as functions. Written by tests/generate.py: change the commands instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Optional, Union

from ._call import Names, Path, Progress
from ._call import call as _call
from ._crew import Workers
from ._explore import explore as _explore
from ._programs import Command, Commands
from ._table import Table

if TYPE_CHECKING:
    from distributed import Client


def compare(
    *,
    workloads: Names = (),
    designs: Names = (),
    machine: Path = "micro15",
    cold: bool = False,
    threads: Optional[int] = None,
    seed: int = 1,
    crashes: int = 20,
    ops: int = 1000,
    entries: Optional[int] = None,
    search: Optional[int] = None,
    mix: Optional[str] = None,
    flushers: int = 4,
    ribbon: Optional[Union[bool, Literal["auto", "always", "never"]]] = None,
    early: Optional[Union[bool, str]] = None,
    defragment: Names = (),
    cost: str = "lean",
    baseline: Optional[str] = None,
    jobs: Optional[int] = None,
    flaw: Optional[
        Literal[
            "no-order", "no-flush", "no-data-flush", "late-undo", "no-wait", "no-stamps",
            "no-freed", "slip",
        ]
    ] = None,
    json: Optional[Path] = None,
    csv: Optional[Path] = None,
    latex: Optional[Path] = None,
    plot: Optional[Path] = None,
    html: Optional[Path] = None,
    detail: bool = False,
    trace: Optional[Path] = None,
    trace_window: Optional[str] = None,
    program: Optional[Commands] = None,
    check: Optional[Commands] = None,
    check_entry: Optional[Union[bool, str]] = None,
    pm: Optional[Literal["files", "heap", "all"]] = None,
    fence: Optional[Literal["order", "drain"]] = None,
    from_: Optional[Literal["start", "threads"]] = None,
    input: Optional[Path] = None,
    expect_exit: Optional[int] = None,
    no_native: bool = False,
    show_output: bool = False,
    profile: bool = False,
    profile_folded: Optional[Path] = None,
    program_seconds: Optional[int] = None,
    progress: Progress = None,
) -> Table:
    """Compare persistency designs on a simulated machine, with crashes.

    :param workloads: Workloads, separated by commas [default: those of MICRO'15, or what the
        machine says]
    :param designs: Designs, separated by commas, each NAME or NAME:KEY=VALUE:.. [default: all]
    :param machine: Machine, or the path of a .toml file, each with :KEY=VALUE for other numbers
    :param cold: Begin with empty caches and measure from the first operation
    :param threads: Threads [default: one per core of the machine that no flusher has]
    :param seed: Seed of the operations and of the crash points
    :param crashes: Crashes to inject into each cell
    :param ops: Measured operations of each thread
    :param entries: Entries at the start [default: the workload's]
    :param search: Per cent of operations that only search [default: the workload's]
    :param mix: Requests of YCSB instead of the workload's own: ycsb-a, .. (`seawall list mixes`)
    :param flushers: Number of flusher threads, one core each
    :param ribbon: Run designs with flushes (clwb) once more, with flushes left to other threads,
        where that pays, always, or never (and count)
    :param early: Let them clean lines early, where that pays: all that are stored to, and skip the
        flush (hook), or of sampled stores, one in 256 or N, and skip none (samples, samples:N)
    :param defragment: Run designs again with objects moved by espresso, sfccd, ffccd, or
        sfccd:TRIGGER:TARGET; espresso-published, sfccd-published and ffccd-published move them as
        published
    :param cost: What transactions of programs whose objects move cost: lean, or libpmemobj (as many
        fences, lines and instructions as those of that library)
    :param baseline: Design that the others are relative to [default: lb, or the first one]
    :param jobs: Host threads [default: one per core]
    :param flaw: Break the structures on purpose, to see it caught
    :param json: Write a JSON record per cell to this file [if stopped: to FILE.partial]
    :param csv: Write the table to this file as comma-separated values [if stopped: to FILE.partial]
    :param latex: Write the table to this file as a tabular of LaTeX [if stopped: to FILE.partial]
    :param plot: Draw the comparison to this SVG file [if stopped: to FILE.partial]
    :param html: Write a page for a browser to this file: charts, a table, and what is behind each
        row [if stopped: to FILE.partial]
    :param detail: Add latencies, the fill of queues, and what each core did to the JSON records
    :param trace: Write the timeline of the cell to this file, for ui.perfetto.dev; one workload,
        kernel or program and one design, and at most 64 MiB
    :param trace_window: The part of the run that it shows: FROM..TO in cycles, or ops:FROM..TO in
        operations, all threads together [default: as much from the start as has room]
    :param program: Run this command, of a program that `seawall cc` compiled; {pool} stands for a
        file of its own for each run. Given several times, as NAME=COMMAND, the programs are
        compared
    :param check: Check what each crash leaves with this command, which ends with 0 if {pool} is
        sound; of several programs all, or with NAME=COMMAND the one of that name
    :param check_entry: Hold it to this function of the program instead, int NAME(const char *pool)
    :param pm: What of its memory is persistent [default: files; with `kernels`: all]
    :param fence: What its sfence asks for, on designs with two kinds of fence [default: order]
    :param from_: When measuring begins [default: start; with `kernels`: threads]
    :param input: What it reads from standard input [default: nothing]
    :param expect_exit: What it returns when all is well [default: 0]
    :param no_native: Do not run it natively first
    :param show_output: Show what it prints, natively and under each design
    :param profile: Show which lines of it the time goes to under each design, and why
    :param profile_folded: Write that to this file, for viewers of flame graphs:
        `design;function;line;reason cycles`
    :param program_seconds: Stop a run of it after so many seconds [default: 3600]
    :param progress: tqdm, one of its bars, or a function of three arguments (done, total, note)
    """
    return _call("compare", locals())


def kernels(
    kernels: Names = (),
    *,
    designs: Names = (),
    machine: Path = "micro15",
    cold: bool = False,
    threads: Optional[int] = None,
    size: str = "quick",
    extent: str = "parallel",
    seed: int = 1,
    crashes: int = 20,
    baseline: str = "volatile",
    jobs: Optional[int] = None,
    traffic: bool = False,
    json: Optional[Path] = None,
    csv: Optional[Path] = None,
    latex: Optional[Path] = None,
    plot: Optional[Path] = None,
    html: Optional[Path] = None,
    detail: bool = False,
    trace: Optional[Path] = None,
    trace_window: Optional[str] = None,
    program: Optional[Commands] = None,
    check: Optional[Commands] = None,
    check_entry: Optional[Union[bool, str]] = None,
    pm: Optional[Literal["files", "heap", "all"]] = None,
    fence: Optional[Literal["order", "drain"]] = None,
    from_: Optional[Literal["start", "threads"]] = None,
    input: Optional[Path] = None,
    expect_exit: Optional[int] = None,
    no_native: bool = False,
    show_output: bool = False,
    profile: bool = False,
    profile_folded: Optional[Path] = None,
    program_seconds: Optional[int] = None,
    progress: Progress = None,
) -> Table:
    """Run parallel programs without a persistency call on a simulated machine, with crashes.

    :param kernels: Kernels, each NAME or NAME:SIZE [default: all ten]
    :param designs: Designs, separated by commas, each NAME or NAME:KEY=VALUE:.. [default: the four
        of bulk mode]
    :param machine: Machine, or the path of a .toml file, each with :KEY=VALUE for other numbers
    :param cold: Begin with empty caches
    :param threads: Threads [default: one per core of the machine]
    :param size: small, quick, full, or a number of each kernel's own units (`seawall list kernels`)
    :param extent: What of the programs runs: bare (heap accesses), parallel (with the instructions
        and the stack of the program whose pattern it is), whole (also what one thread does first)
    :param seed: Seed of the inputs and of the crash points
    :param crashes: Crashes of each kernel under each design that promises it something
    :param baseline: Design that time is relative to, which is run too
    :param jobs: Host threads [default: one per core]
    :param traffic: Print what each kernel does under the baseline, too: memory, references, misses
    :param json: Write a JSON record per kernel and design to this file [if stopped: to
        FILE.partial]
    :param csv: Write the table to this file as comma-separated values [if stopped: to FILE.partial]
    :param latex: Write the table to this file as a tabular of LaTeX [if stopped: to FILE.partial]
    :param plot: Draw times and where they went to this SVG file [if stopped: to FILE.partial]
    :param html: Write a page for a browser to this file: charts, a table, and what is behind each
        row [if stopped: to FILE.partial]
    :param detail: Add latencies, the fill of queues, and what each core did to the JSON records
    :param trace: Write the timeline of the cell to this file, for ui.perfetto.dev; one workload,
        kernel or program and one design, and at most 64 MiB
    :param trace_window: The part of the run that it shows: FROM..TO in cycles, or ops:FROM..TO in
        operations, all threads together [default: as much from the start as has room]
    :param program: Run this command, of a program that `seawall cc` compiled; {pool} stands for a
        file of its own for each run. Given several times, as NAME=COMMAND, the programs are
        compared
    :param check: Check what each crash leaves with this command, which ends with 0 if {pool} is
        sound; of several programs all, or with NAME=COMMAND the one of that name
    :param check_entry: Hold it to this function of the program instead, int NAME(const char *pool)
    :param pm: What of its memory is persistent [default: files; with `kernels`: all]
    :param fence: What its sfence asks for, on designs with two kinds of fence [default: order]
    :param from_: When measuring begins [default: start; with `kernels`: threads]
    :param input: What it reads from standard input [default: nothing]
    :param expect_exit: What it returns when all is well [default: 0]
    :param no_native: Do not run it natively first
    :param show_output: Show what it prints, natively and under each design
    :param profile: Show which lines of it the time goes to under each design, and why
    :param profile_folded: Write that to this file, for viewers of flame graphs:
        `design;function;line;reason cycles`
    :param program_seconds: Stop a run of it after so many seconds [default: 3600]
    :param progress: tqdm, one of its bars, or a function of three arguments (done, total, note)
    """
    return _call("kernels", locals())


def run(
    workload: str,
    *,
    threads: int = 1,
    seconds: float = 2,
    ops: Optional[int] = None,
    seed: int = 1,
    entries: Optional[int] = None,
    search: Optional[int] = None,
    mix: Optional[str] = None,
    file: Optional[Path] = None,
    witness: Optional[Path] = None,
    domain: Optional[str] = None,
    ribbon: Optional[Union[bool, Literal["auto", "always", "never"]]] = None,
    early: Optional[Union[bool, Literal["auto", "samples", "pages", "soft-dirty", "hook"]]] = None,
    flushers: Optional[int] = None,
    dirtiness: bool = False,
    defragment: Optional[str] = None,
    latency: bool = False,
    recover: Optional[Path] = None,
    json: Optional[Path] = None,
    progress: Progress = None,
) -> Table:
    """Run a workload on this machine's memory, or recover what a run left.

    :param workload: Workload
    :param threads: Threads
    :param seconds: Seconds to run
    :param ops: Operations of each thread, instead of a time
    :param seed: Seed of the operations
    :param entries: Entries at the start [default: the workload's]
    :param search: Per cent of operations that only search [default: the workload's]
    :param mix: Requests of YCSB instead of the workload's own: ycsb-a, .. (`seawall list mixes`)
    :param file: Pool file to create; it stays after the run [default: a temporary one]
    :param witness: File to create for the count of finished operations of each thread
    :param domain: What a drain must survive: line, page or none [default: what fits the file]
    :param ribbon: Leave flushes to other threads, where that pays, always, or never (and count)
    :param early: Clean lines before their flush is asked for, where that pays, told of stores by
        the first of the others (auto), sampled addresses, marked pages, or handles, which then skip
        the flush
    :param flushers: Threads that flush [default: a processor fewer than there are, 1 to 24]
    :param dirtiness: Count how much of each flushed line was dirty (which takes time)
    :param defragment: Move objects together meanwhile, in a thread more: espresso, sfccd, or
        sfccd:TRIGGER:TARGET
    :param latency: Measure how long each operation takes
    :param recover: Recover and check this pool file instead of running
    :param json: Write what was done to this file, as one JSON record [if stopped: none]
    :param progress: tqdm, one of its bars, or a function of three arguments (done, total, note)
    """
    return _call("run", locals())


def explore(
    workload: Optional[str] = None,
    *,
    defragment: Optional[str] = None,
    model: Names = "px86,bep",
    threads: int = 1,
    ops: int = 12,
    entries: int = 8,
    search: int = 0,
    mix: Optional[str] = None,
    seconds: Optional[int] = None,
    schedules: Optional[int] = None,
    preemptions: Optional[int] = None,
    delays: int = 1,
    buffer: int = 16,
    seed: int = 1,
    budget: Optional[int] = None,
    torn_lines: Optional[int] = None,
    depth: Optional[int] = None,
    searchers: int = 4,
    shard: Optional[str] = None,
    resume: Optional[Path] = None,
    quick: bool = False,
    thorough: bool = False,
    flaw: Optional[
        Literal[
            "no-order", "no-flush", "no-data-flush", "late-undo", "no-wait", "no-stamps",
            "no-freed", "slip",
        ]
    ] = None,
    fixed: bool = False,
    replay: Optional[str] = None,
    broken: bool = False,
    require_complete: bool = False,
    json: Optional[Path] = None,
    html: Optional[Path] = None,
    program: Optional[Command] = None,
    check: Optional[Command] = None,
    check_entry: Optional[Union[bool, str]] = None,
    prepare: Optional[Command] = None,
    fence: Optional[Literal["order", "drain"]] = None,
    input: Optional[Path] = None,
    check_input: Optional[Path] = None,
    expect_exit: Optional[int] = None,
    program_seconds: Optional[int] = None,
    executor: Workers = None,
    client: Optional[Client] = None,
    progress: Progress = None,
) -> Table:
    """Try the images that a crash of a short run may leave.

    :param workload: Workload, case of the corpus, fast-fair or hash-table
    :param defragment: Move objects together meanwhile, by a step behind each operation of the first
        thread: espresso, sfccd, ffccd, or sfccd:TRIGGER:TARGET
    :param model: Persistency models, separated by commas
    :param threads: Threads
    :param ops: Operations of each thread
    :param entries: Entries at the start
    :param search: Per cent of operations that only search
    :param mix: Requests of YCSB instead of the workload's own: ycsb-a, .. (`seawall list mixes`)
    :param seconds: Seconds that it may take, 0 for as long as it needs [default: 10; with --quick
        2, with --thorough 0]
    :param schedules: Different schedules of the threads to try at most, on each kind of machine;
        one more at random follows every third
    :param preemptions: Interruptions of a thread in one schedule at most, where not at random
        [default: 2; with --quick 1, with --thorough 3]
    :param delays: Delays in store buffers in one schedule at most, where not at random: loads
        before earlier stores, non-temporal stores that leave late
    :param buffer: Stores that a store buffer holds
    :param seed: Seed of the operations, the schedules and the random images
    :param budget: Crash states at most, for each model and run, or part of the only run [default:
        no limit]
    :param torn_lines: Lines of one image, at most, whose words were written past the caches and
        persisted out of order [default: 1; with --quick 0]
    :param depth: Crashes during recovery that follow the first crash [default: 2; with --quick 1]
    :param searchers: Cores that search at once, each with some 100 MB at most; the others make runs
    :param shard: Do one part of the work, as 3/64
    :param resume: File to note finished work in, and to go on from if stopped
    :param quick: Look less far, for an answer at once
    :param thorough: Look further, for as long as it takes; crash after each store, too
    :param flaw: Break the structure on purpose
    :param fixed: The fixed twin of a case of the corpus
    :param replay: Build one image again, as a finding printed it
    :param broken: Break the structure on purpose: the same as --flaw no-order
    :param require_complete: Exit code 1 also if not every image of every schedule within the bounds
        was tried
    :param json: Write the report to this file, as one JSON record [if stopped: to FILE.partial]
    :param html: Write a page for a browser to this file, with what happened before each crash
        beside the sources [if stopped: to FILE.partial]
    :param program: Explore this command, of a program that `seawall cc` compiled; {pool} stands for
        a file of its own for each run
    :param check: Its recovery and check, of a program that `seawall cc` compiled: it ends with 0 if
        {pool} is sound
    :param check_entry: A function of the program as its recovery and check instead, int NAME(const
        char *pool)
    :param prepare: Run this command first, natively and once: every run begins with the {pool} that
        it leaves
    :param fence: What its sfence asks for, under models with two kinds of fence [default: order]
    :param input: What it reads from standard input [default: nothing]
    :param check_input: What the check reads from standard input [default: nothing]
    :param expect_exit: What it returns when all is well [default: 0]
    :param program_seconds: Stop a run of it, or its recovery, after so many seconds [default: 10]
    :param executor: Do its parts on this ``concurrent.futures.Executor``, or on those that a
        function makes: as many parts as searchers. What is found is the same; it goes to its end,
        however long that takes, and resume keeps the parts that are done.
    :param client: Do its parts on the workers of this client's Dask cluster
    :param progress: tqdm, one of its bars, or a function of three arguments (done, total, note)
    """
    return _explore(locals())


def litmus(
    tests: Names = (),
    *,
    models: Names = (),
    designs: Names = (),
    crashes: int = 200,
    long: bool = False,
    seed: int = 1,
    json: Optional[Path] = None,
    progress: Progress = None,
) -> Table:
    """Try all that a crash may leave of tiny programs, under models and on simulated designs.

    :param tests: Ids (A01) or families (x86) of tests, or paths of .litmus files [default: the
        suite]
    :param models: Persistency models, separated by commas, or none [default: all]
    :param designs: Designs, separated by commas, each NAME or NAME:KEY=VALUE:.., or none [default:
        all that promise something, in bulk mode with stores=2:records=4]
    :param crashes: Crashes of each test under each design
    :param long: 10000 crashes of each test under each design
    :param seed: Seed of timing and crashes
    :param json: Write a JSON record per test to this file [if stopped: to FILE.partial]
    :param progress: tqdm, one of its bars, or a function of three arguments (done, total, note)
    """
    return _call("litmus", locals())


def corpus(
    cases: Names = (),
    *,
    long: bool = False,
    json: Optional[Path] = None,
    progress: Progress = None,
) -> Table:
    """Let the explorer find known bugs: small programs, each broken and fixed.

    :param cases: Cases, or beginnings of the names of several [default: all]
    :param long: Crash after each store too, and crash recovery twice
    :param json: Write a JSON record per case and model to this file [if stopped: none]
    :param progress: tqdm, one of its bars, or a function of three arguments (done, total, note)
    """
    return _call("corpus", locals())


def reproduce(
    figures: Names = (),
    *,
    all: bool = False,
    quick: bool = False,
    full: bool = False,
    varied: bool = False,
    strict: bool = False,
    seed: int = 1,
    jobs: Optional[int] = None,
    programs: Optional[Path] = None,
    keep: Optional[Path] = None,
    json: Optional[Path] = None,
    pages: Optional[Path] = None,
    html: Optional[Path] = None,
    plots: Optional[Path] = None,
    progress: Progress = None,
) -> Table:
    """Measure the figures of the papers, theirs beside ours.

    :param figures: Figures, first parts of their names (micro15: all that begin with micro15-), or
        paths of .toml files [default: all]
    :param all: All figures, as without a name
    :param quick: Run a fifth of the operations or entries, and few records of the logging figures
    :param full: Run as many records of the logging figures, and entries of programs that are
        defragmented, as the papers
    :param varied: Also run what the figures' files list besides: other readings of the papers,
        forms of our own, stand-ins that are retired, and other values of parameters that nobody
        published. Several times as long
    :param strict: Exit with 1 if something does not hold
    :param seed: Seed of the operations
    :param jobs: Host threads [default: one per core]
    :param programs: Run the papers' programs again that are in this folder, compiled with `seawall
        cc` [default: what they took on another day]
    :param keep: Keep each finished run in this file, and take those that it has: the same command
        again goes on with work that was stopped
    :param json: Write a JSON record per series to this file [if stopped: to FILE.partial]
    :param pages: Write a page in Markdown per figure to this folder, with a picture of the
        published values and ours [if stopped: in FOLDER.partial]
    :param html: Write a page for a browser to this file: each published value beside ours, and the
        records behind it [if stopped: to FILE.partial]
    :param plots: Draw the figures to SVG files in this folder [if stopped: in FOLDER.partial]
    :param progress: tqdm, one of its bars, or a function of three arguments (done, total, note)
    """
    return _call("reproduce", locals())


def whisper(
    applications: Names = (),
    *,
    machine: Optional[Path] = None,
    threads: Optional[int] = None,
    ops: int = 500,
    seed: int = 1,
    jobs: Optional[int] = None,
    strict: bool = False,
    json: Optional[Path] = None,
    progress: Progress = None,
) -> Table:
    """Count how applications use persistent memory, beside what was published.

    :param applications: Applications [default: all]
    :param machine: Machine, or the path of a .toml file [default: hops17]
    :param threads: Threads [default: one per core of the machine]
    :param ops: Counted operations of each thread
    :param seed: Seed of the operations
    :param jobs: Host threads [default: one per core]
    :param strict: Exit with 1 if a value is more than three times the published one, or less than a
        third
    :param json: Write a JSON record per application to this file [if stopped: to FILE.partial]
    :param progress: tqdm, one of its bars, or a function of three arguments (done, total, note)
    """
    return _call("whisper", locals())


def validate(
    *,
    machine: Path = "micro15",
    seed: int = 1,
    json: Optional[Path] = None,
    plots: Optional[Path] = None,
    progress: Progress = None,
) -> Table:
    """Hold the simulated machine to closed formulas, and to hardware where that was measured.

    :param machine: Machine, or the path of a .toml file, each with :KEY=VALUE for other numbers
    :param seed: Seed of the orders in which memory is walked
    :param json: Write a record per point to this file, as JSON Lines [if stopped: none]
    :param plots: Draw the curves into this folder, as SVG [if stopped: none]
    :param progress: tqdm, one of its bars, or a function of three arguments (done, total, note)
    """
    return _call("validate", locals())
