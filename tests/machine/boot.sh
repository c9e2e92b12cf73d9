#!/bin/bash
# boot.sh STAGE OUT NAME: in namespaces of its own (unshare -m -p -n -u -i), runs systemd as process 1 over a
# copy of this machine's file system that lies in memory, with what STAGE has above it. It runs try.sh of
# OUT as a service; what that says goes to OUT/log, its status to OUT/status. It has a tree of control groups of
# its own below NAME, so that several of them do not meddle with each other's.
set -e
stage=$1 out=$2 name=$3
if [ "${4:-}" != inside ]; then
    mount --make-rprivate /
    mkdir -p "$out/groups"
    mount -t cgroup2 cgroup2 "$out/groups"
    mkdir -p "$out/groups/$name"
    echo 0 >"$out/groups/$name/cgroup.procs"
    umount "$out/groups"
    exec unshare -C bash "$0" "$stage" "$out" "$name" inside
fi
memory=$out/memory
mkdir -p "$memory"
mount -t tmpfs memory "$memory"
mkdir "$memory/upper" "$memory/work" "$memory/root"
root=$memory/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$memory/upper,workdir=$memory/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t bpf bpf "$root/sys/fs/bpf"
for directory in run tmp dev; do mount -t tmpfs "$directory" "$root/$directory"; done
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts devpts "$root/dev/pts" -o newinstance
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
touch "$root/dev/console" "$out/console"
mount --bind "$out/console" "$root/dev/console"
cp -a "$stage/." "$root/"
mkdir -p "$root/out"
mount --bind "$out" "$root/out"

# Only what is tried is started, and nothing of this machine's.
units=$root/etc/systemd/system
rm -rf "$units"/*.wants "$units"/*.service.d "$root/etc/outboard"
for unit in systemd-firstboot systemd-machine-id-commit systemd-networkd-wait-online systemd-networkd; do
    ln -sf /dev/null "$units/$unit.service"
done
ln -sf /lib/systemd/system/basic.target "$units/default.target"
mkdir "$units/basic.target.wants"
cat >"$units/try.service" <<'END'
[Unit]
DefaultDependencies=no
After=basic.target dbus.socket
[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/bin/bash -c '/bin/bash -eu /out/try.sh >/out/log 2>&1; echo $? >/out/status.new; mv /out/status.new /out/status'
END
ln -s ../try.service "$units/basic.target.wants/try.service"
head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$root/etc/machine-id"
exec env -i container=lab PATH="$PATH" chroot "$root" /lib/systemd/systemd --system
