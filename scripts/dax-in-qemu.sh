#!/usr/bin/env bash
# Tests the native machine on real persistent-memory mappings (ext4 -o dax, MAP_SYNC) without such
# hardware: a Debian kernel in software QEMU uses parts of its memory as persistent memory.
#
#   scripts/dax-in-qemu.sh          about two minutes; not part of the gate
#
# There are two boots, with one file system on persistent memory and one that caches pages as on a
# disk. The first boot runs the tests of crates/native on both, checks what `seawall doctor` says,
# kills a `seawall run` and recovers its pool, and fills the disk. Then QEMU itself is killed while
# workloads run and after pools have grown: a power failure for the guest's kernel, whose persistent
# memory is a file on this host. The second boot checks that all promised data are there, and that
# data without a promise are gone. QEMU models no CPU caches: this tests the mapping, the file
# system and the code path, not whether a flush was forgotten (`seawall explore` does that), and its
# times have no meaning.
#
# Debian packages: qemu-system-x86, busybox-static, e2fsprogs, and a kernel image package, which is
# downloaded and unpacked, not installed; KERNEL_DEB=linux-image-*.deb names a local one. WORK_DIR
# (default: target/dax-in-qemu) keeps the kernel, the guest's memory and its output.
#
# Exit code: 0 all checks passed, 1 a check failed, 2 it could not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=${WORK_DIR:-$PWD/target/dax-in-qemu}
modules="crc32c_generic crc16 mbcache jbd2 ext4 libnvdimm nd_btt nd_e820 nd_pmem"
boot_seconds_max=600

cannot() {
    echo "dax-in-qemu: $*" >&2
    exit 2
}

need() {
    command -v "$1" >/dev/null || cannot "$1 is missing; apt-get install $2"
}

# Unpacks a kernel into $work/kernel.
get_kernel() {
    [ -e "$work/kernel/boot" ] && [ -z "${KERNEL_DEB:-}" ] && return
    local deb=${KERNEL_DEB:-}
    if [ -z "$deb" ]; then
        local name
        name=$(apt-cache depends linux-image-amd64 2>/dev/null |
            sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
        [ -n "$name" ] || cannot "apt knows no kernel; apt-get update, or give KERNEL_DEB=FILE"
        echo "== downloading $name"
        rm -f "$work"/linux-image-*.deb
        (cd "$work" && apt-get download -q "$name" >apt.log 2>&1) ||
            cannot "cannot download $name; apt-get update, or give KERNEL_DEB=FILE"
        deb=$(echo "$work"/linux-image-*.deb)
    fi
    rm -rf "$work/kernel"
    dpkg-deb -x "$deb" "$work/kernel" || cannot "$deb: no Debian package"
}

# Prints the executable that a cargo command builds.
built() {
    local found
    found=$(cargo "$@" --message-format=json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
    [ -n "$found" ] || cannot "cargo $* built nothing"
    echo "$found" | tail -n 1
}

# Puts a dynamic program into the guest as /bin/$2, with the libraries it needs.
put_program() {
    cp "$1" "$root/bin/$2"
    strip "$root/bin/$2" 2>/dev/null || true
    ldd "$1" | sed -n 's/^[^/]*\(\/[^ ]*\).*/\1/p' | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -n -L "$library" "$root$library"
    done
}

put_modules() {
    local name found
    for name in $modules; do
        found=$(find "$work/kernel" -name "$name.ko*" | head -n 1)
        case $found in
            *.ko) cp "$found" "$root/modules/$name.ko" ;;
            *.ko.xz) xz -dc "$found" >"$root/modules/$name.ko" ;;
            *.ko.zst) zstd -qdc "$found" >"$root/modules/$name.ko" ;;
            *) ;; # Built into the kernel.
        esac
    done
    echo "$modules" >"$root/modules/order"
}

make_initramfs() {
    root=$work/root
    rm -rf "$root"
    mkdir -p "$root"/{bin,dev,disk,modules,pmem,proc,sys,tmp}
    cp "$(command -v busybox)" "$root/bin/busybox"
    put_modules
    put_program "$(built test -q -p seawall-native --lib --no-run)" native-tests
    put_program "$(built build -q -p seawall-native --example grow)" grow
    put_program "$(built build -q --release -p seawall-cli)" seawall
    put_program "$(command -v mkfs.ext4 || echo /sbin/mkfs.ext4)" mkfs.ext4
    cp scripts/dax-in-qemu/init "$root/init"
    chmod +x "$root/init"
    (cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null) >"$work/initramfs"
}

# Removes control sequences of terminals.
plain() {
    tr -d '\r' | sed 's/\x1b\[[0-9;?]*[a-zA-Z]//g; s/\x1bc//g'
}

# boot NUMBER [MARK]: runs the guest until it ends, or kills it (power failure) soon after MARK is
# in its output.
qemu=
trap '[ -z "$qemu" ] || kill -9 "$qemu" 2>/dev/null || true' EXIT
boot() {
    local log=$work/boot$1.log mark=${2:-}
    : >"$log"
    echo "== boot $1"
    qemu-system-x86_64 -accel tcg -cpu max -smp 2 -m 1G -nodefaults -nographic -no-reboot \
        -machine pc,memory-backend=ram \
        -object "memory-backend-file,id=ram,size=1G,share=on,mem-path=$work/memory" \
        -kernel "$(echo "$work"/kernel/boot/vmlinuz-*)" -initrd "$work/initramfs" \
        -append "console=ttyS0 quiet panic=-1 memmap=128M!256M memmap=64M!512M boot=$1" \
        -serial "file:$log" </dev/null 2>"$work/qemu.err" &
    qemu=$!
    local ticks=0 ended
    while kill -0 "$qemu" 2>/dev/null && [ $ticks -lt $((boot_seconds_max * 5)) ]; do
        sleep 0.2
        ticks=$((ticks + 1))
        [ -n "$mark" ] && grep -q -- "$mark" "$log" && break
    done
    kill -9 "$qemu" 2>/dev/null && ended="was killed" || ended="ended by itself"
    wait "$qemu" 2>/dev/null || true
    qemu=
    plain <"$log" | tee "$log.plain"
    cat "$work/qemu.err"
    echo "== boot $1 $ended after about $((ticks / 5)) s"
}

need cargo "rustc cargo (or rustup)"
need qemu-system-x86_64 qemu-system-x86
need busybox busybox-static
need ldd libc-bin
need dpkg-deb dpkg
PATH=$PATH:/sbin:/usr/sbin need mkfs.ext4 e2fsprogs
[ "$(uname -sm)" = "Linux x86_64" ] || cannot "runs on x86-64 Linux only"
ldd "$(command -v busybox)" >/dev/null 2>&1 && cannot "busybox is dynamic; apt-get install busybox-static"

mkdir -p "$work"
work=$(cd "$work" && pwd)
get_kernel
echo "== building"
make_initramfs
rm -f "$work/memory"

boot 1 "now the power may fail"
boot 2
rm -f "$work/memory"

# All steps of the guest, in its order.
failed=0
passed=$(cat "$work"/boot[12].log.plain)
for step in $(sed -n 's/^ *tell \$? //p' scripts/dax-in-qemu/init); do
    if grep -qx "PASS $step" <<<"$passed"; then
        echo "pass  $step"
    else
        echo "FAIL  $step"
        failed=1
    fi
done
[ $failed = 0 ] && echo "dax-in-qemu: everything held" || echo "dax-in-qemu: see $work/boot*.log"
exit $failed
