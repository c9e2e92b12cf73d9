#!/bin/bash
# Makes the first file system of an emulated machine out of an unpacked kernel package.
#
#   image.sh PACKAGE IMAGE
#
# It holds busybox and the modules that the machine needs to see this machine's own files (read-only,
# by 9p, with an overlay in memory above them), in which it then runs the program of the check.
set -eu
package=$(readlink -f "$1") image=$(readlink -f "$2")
version=$(ls "$package/lib/modules")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p bin sbin proc sys dev ro rw mnt "lib/modules/$version"
cp "$(command -v busybox)" bin/busybox
ln -s ../bin/busybox sbin/modprobe
cp "$package/lib/modules/$version"/modules.{order,builtin,builtin.modinfo} "lib/modules/$version"
cd "$package/lib/modules/$version"
find kernel \( -path '*/virtio/*' -o -path '*/net/virtio_net*' -o -path '*/net_failover*' \
	-o -path '*/failover*' -o -path '*/vmxnet3/*' -o -path '*/intel/e1000*' -o -path '*/intel/igb*' \
	-o -path '*/ptp/*' -o -path '*/pps/*' -o -path '*/9p*' -o -path '*/fscache*' -o -path '*/netfs*' \
	-o -path '*/overlayfs/*' -o -path '*/tcp_diag*' -o -path '*/inet_diag*' -o -path '*/i2c-algo-bit*' \
	-o -path '*/dca/*' -o -path '*/net/802*' -o -path '*/net/llc/*' -o -path '*/lib/*' -o -path '*/crypto/*' -o -path '*/veth*' \) -name '*.ko*' \
	-exec cp --parents -t "$work/lib/modules/$version" {} +
cd "$work"
# Busybox reads no compressed modules.
find lib/modules -name '*.xz' -exec unxz {} +
find lib/modules -name '*.zst' -exec unzstd -q --rm {} +
depmod -b . "$version"
cat > init <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in virtio_pci virtio_net 9pnet_virtio 9p overlay veth igb e1000e vmxnet3 tcp_diag 8021q; do
	modprobe $module 2>/dev/null
done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose host /ro
mount -t tmpfs -o size=1g tmpfs /rw
mkdir /rw/upper /rw/work
mount -t overlay -o lowerdir=/ro,upperdir=/rw/upper,workdir=/rw/work overlay /mnt
mount -t proc proc /mnt/proc
mount -t sysfs sys /mnt/sys
mount --rbind /dev /mnt/dev
mkdir -p /mnt/dev/shm
mount -t tmpfs tmpfs /mnt/dev/shm
mount -t tmpfs tmpfs /mnt/run
mount -t tmpfs tmpfs /mnt/tmp
ip link set lo up
for word in $(cat /proc/cmdline); do
	case $word in check=*) check=${word#check=} ;; esac
done
chroot /mnt /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root /bin/bash $(echo $check | tr , ' ')
poweroff -f
INIT
chmod +x init
find . | cpio --quiet -o -H newc | zstd -q -3 -f -o "$image"
