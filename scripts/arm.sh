#!/usr/bin/env bash
# Builds the crates that have code for Arm, for 64-bit Arm Linux, and runs their tests in QEMU's user
# mode, on a processor without `dc cvap`, and on one with it where QEMU has it. Then the command and
# the Python package: what the command prints there is what it prints here, to the byte, and what
# needs programs that `seawall cc` compiles, which are for x86-64, is refused.
#
#   scripts/arm.sh          ten minutes or so; not part of the gate
#
# This shows that the code is there, that each instruction is the one that is meant (the disassembly
# is searched for it), that it runs, and that the choice of the instruction is right. It does not
# show that data are durable, nor that a fence is strong enough: QEMU has no caches, and orders
# memory as this host does.
#
# Needs rustup; Debian packages: qemu-user, gcc-aarch64-linux-gnu (with its binutils). With
# ARM_PYTHON=FILE, a Python 3.9 or later for 64-bit Arm, the package is also imported and run there,
# and with ARM_WHEEL=FILE the wheel that `xtask wheel --target` made; their libraries are looked for
# in ARM_LIBRARIES=DIR.
#
# Exit code: 0 all checks passed, 1 a check failed, 2 it could not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=aarch64-unknown-linux-gnu
libraries=${ARM_LIBRARIES:-/usr/aarch64-linux-gnu}

cannot() {
    echo "arm: $*" >&2
    exit 2
}

need() {
    command -v "$1" >/dev/null || cannot "$1 is missing; $2"
}

need cargo "install Rust: https://rustup.rs"
need qemu-aarch64 "apt-get install qemu-user"
need aarch64-linux-gnu-gcc "apt-get install gcc-aarch64-linux-gnu"
need aarch64-linux-gnu-objdump "apt-get install binutils-aarch64-linux-gnu"
[ -e "$libraries/lib/ld-linux-aarch64.so.1" ] ||
    cannot "$libraries has no C library; apt-get install libc6-arm64-cross, or give ARM_LIBRARIES=DIR"
if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    need rustup "install the target $target of rustc"
    echo "== rustup target add $target"
    rustup target add "$target" || cannot "rustup cannot get the target $target"
fi

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export QEMU_LD_PREFIX=$libraries

# Runs the tests that the words name, on that processor.
tests() {
    local processor=$1
    shift
    echo "== on $processor: cargo test $*"
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -cpu $processor" \
        cargo test --locked --target "$target" "$@"
}

# Fails unless the program $1 has the instruction $2.
has() {
    aarch64-linux-gnu-objdump --disassemble "$1" | grep -E "\s${2/ /\\s+}(\s|$)" >/dev/null || {
        echo "arm: $1 has no $2" >&2
        exit 1
    }
    echo "found: $2"
}

# Runs an instruction in a program of its own, on that processor.
runs() {
    mkdir -p target/arm
    echo "int main(void) { char line[64]; __asm__ volatile(\"$2\" :: \"r\"(line) : \"memory\"); }" \
        >target/arm/probe.c
    aarch64-linux-gnu-gcc -o target/arm/probe target/arm/probe.c || cannot "the C compiler fails"
    # In a shell of its own, which is the one that says how the program ended.
    bash -c "ulimit -c 0; qemu-aarch64 -cpu $1 target/arm/probe; exit \$?" 2>/dev/null
}

# What QEMU's user mode does not have: a terabyte of addresses (the first three), limits of a process
# (the next two), the errors of msync, page faults that are the program's own, and forked processes
# of one thread (the last three).
not_in_qemu=(
    --skip a_pool_that_has_no_room_to_grow_says_false_and_goes_on
    --skip what_one_thread_grew_all_may_use_and_a_reopened_pool_has_it
    --skip without_room_on_the_disk_the_file_stays_as_it_was
    --skip the_limit_of_a_process_on_files_is_an_answer_and_no_signal
    --skip a_thread_that_gets_a_stack_and_no_more_ends_the_process_with_a_message
    --skip pages_that_are_not_mapped_cannot_be_synced
    --skip what_will_be_written_is_brought_in_at_once_and_stays_as_it_is
    --skip a_child_has_no_cleaner_and_the_parents_goes_on
    --skip a_child_does_what_a_flusher_had_taken_on_and_the_parent_waits_for_it
    --skip forks_at_any_moment_end_well_on_both_sides
)

old=cortex-a57
new=max
tests $old -p seawall-memory -p seawall-native -p seawall-fiber --lib --tests -- "${not_in_qemu[@]}"
tests $old -p seawall-runtime --lib tx::
# QEMU 7.2 says in user mode that it has `dc cvap`, and ends a program that uses it.
if runs $new "sys #3, c7, c12, #1, %0"; then
    tests $new -p seawall-native --lib -- "${not_in_qemu[@]}"
else
    echo "== not run: dc cvap, which $(qemu-aarch64 --version | head -n 1) does not run"
fi

echo "== the instructions"
native=$(cargo test --quiet --locked --target "$target" -p seawall-native --lib --no-run \
    --message-format=json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
[ -n "$native" ] || cannot "cargo names no program of the tests of seawall-native"
has "$native" 'dc cvap,'
has "$native" 'dc cvac,'
has "$native" 'dsb sy'
has "$native" 'prfm pstl1keep,'

echo "== the command and the Python package: cargo build -p seawall-cli -p seawall-python"
# Prints where the program or library $1 is that cargo builds with the other words.
built() {
    local name=$1
    shift
    cargo build --quiet --locked --message-format=json "$@" |
        sed -n 's/.*"filenames":\["\([^"]*\)".*/\1/p' | grep -E "/$name\$" | tail -n 1
}
here=$(built seawall -p seawall-cli)
there=$(built seawall --target "$target" -p seawall-cli -p seawall-python)
module=$(dirname "$there")/lib_seawall.so
aarch64-linux-gnu-objdump --file-headers "$module" | grep -q 'architecture: aarch64' ||
    cannot "$module is not for Arm"
aarch64-linux-gnu-nm --dynamic --defined-only "$module" | grep -q ' T PyInit__seawall$' || {
    echo "arm: $module is no module of Python" >&2
    exit 1
}

# Runs the command on both processors: what it prints must be the same.
same() {
    echo "== on both: seawall $*"
    "$here" "$@" >"$folder/here"
    qemu-aarch64 "$there" "$@" >"$folder/there"
    cmp "$folder/here" "$folder/there" || {
        diff "$folder/here" "$folder/there" | head -n 20
        exit 1
    }
}

# Runs the command on Arm, which must refuse by naming the processor that it needs.
refused() {
    echo "== refused: seawall $*"
    local code=0
    qemu-aarch64 "$there" "$@" >/dev/null 2>"$folder/said" || code=$?
    if [ "$code" != 2 ] || ! grep -q 'x86-64' "$folder/said"; then
        echo "arm: exit code $code, and it said:" >&2
        cat "$folder/said" >&2
        exit 1
    fi
}

folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
same compare -m desktop -w hash,queue -d lb,lbpp,hops --ops 40 --entries 64 --crashes 5
same compare -m desktop -w sps,ycsb -d lbpp --ops 30 --entries 64 --crashes 2
same kernels lu:8 -m desktop -d bsp-lb,bsp-lbpp --crashes 5
same litmus A01 threads --designs lbpp,clwb --crashes 20
same explore queue --ops 2 --entries 2 --seconds 0
same list designs
echo 'int main(void) { return 0; }' >"$folder/program.c"
refused cc -o "$folder/program" "$folder/program.c"
cp /bin/true "$folder/program"
refused compare -d lb --program "$folder/program"
refused explore --program "$folder/program" --check "$folder/program"
refused program-process "$folder"

# Runs the Python package that is in the folder $1 on Arm, and compares a record with the command's.
python_runs() {
    echo "== the package on Arm, from $2"
    "$here" compare -m desktop -w hash -d lbpp --ops 40 --entries 64 --crashes 2 \
        --json "$folder/records.jsonl" >/dev/null
    PYTHONPATH=$1 qemu-aarch64 "$ARM_PYTHON" - "$folder/records.jsonl" <<'END'
import json, platform, sys
import seawall
[here] = map(json.loads, open(sys.argv[1]))
[there] = seawall.compare(
    machine="desktop", workloads=["hash"], designs=["lbpp"], ops=40, entries=64, crashes=2, progress=False
)
assert platform.machine() == "aarch64", platform.machine()
for name in here.keys() - {"command"}:
    assert there[name] == here[name], (name, there[name], here[name])
try:
    seawall.explore(program="true", check="true")
except seawall.Error as error:
    assert "x86-64" in str(error), error
else:
    raise AssertionError("programs of x86-64 are not refused")
print("seawall", seawall.__version__, "on", platform.machine(), there["cycles"], "cycles")
END
}

if [ -n "${ARM_PYTHON:-}" ]; then
    mkdir "$folder/package"
    cp -r crates/python/python/seawall "$folder/package/"
    cp "$module" "$folder/package/seawall/_seawall.abi3.so"
    python_runs "$folder/package" "$module"
    if [ -n "${ARM_WHEEL:-}" ]; then
        python3 -m zipfile -e "$ARM_WHEEL" "$folder/wheel"
        python_runs "$folder/wheel" "$ARM_WHEEL"
    fi
fi

echo "== all checks passed"
