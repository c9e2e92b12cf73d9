# Run under systemd as process 1: docs/first-hour.md from its first line to its last, typed by a user who has
# sudo, with a look after each block (hour-checks.sh); and what there is afterwards that was not there before.
set -o pipefail
trap 'echo "failed in line $LINENO"; systemctl --no-pager status "outboard@*" nginx; journalctl --no-pager -n 60' ERR

# Whoever has sudo: a shell that stays root, and becomes so wholly.
useradd --create-home --shell /bin/bash newcomer
install -m 4755 /bin/bash /usr/local/bin/root-shell
cat >/usr/local/bin/sudo <<'END'
#!/usr/local/bin/root-shell -p
PATH=$PATH:/usr/sbin:/sbin exec setpriv --reuid=0 --regid=0 --clear-groups -- "$@"
END
chmod 755 /usr/local/bin/sudo
# A container's own rule that no service is started or stopped by packages.
rm -f /usr/sbin/policy-rc.d
ip link set lo up
# The page of another server's package, which a machine may have besides.
rm -f /var/www/html/index.html
systemctl start nginx

# All files where packages and services have theirs, but for accounts, logs, caches, and what apt and ip make
# for themselves.
files() {
    find /etc /opt /srv /usr /var -xdev \( -path /var/cache -o -path /var/lib/apt -o -path /var/lib/dpkg \
        -o -path /var/lib/PackageKit -o -path /var/lib/systemd/linger -o -path /var/log -o -path /var/tmp \) \
        -prune -o -printf '%y %p\n' | sort
    find /run /tmp \( -path /run/systemd -o -path /run/user -o -path /run/log -o -path /run/netns \
        -o -name 'systemd-private-*' \) -prune -o -printf '%y %p\n' | sort
    getent passwd
    getent group
}
is_as_it_was() {
    files >/out/after
    diff /out/before /out/after
    systemctl is-active nginx
    if grep -l -s liboutboard /proc/[0-9]*/maps; then echo "a program has the library still"; return 1; fi
}
files >/out/before
runuser -u newcomer -- bash /out/hour.bash </dev/null
is_as_it_was

echo "-- purged in the middle of it: engine and services are let go of"
apt-get install -qq -y /out/packages/2/outboard_*.deb
mkdir /etc/outboard
ip link add hour1 type veth peer name hour2
echo 'interface = "hour1"' >/etc/outboard/default.toml
systemctl enable --now outboard@default
outboard service enable nginx
systemctl restart nginx
until outboard ss -aH sport = :80 | grep LISTEN; do sleep 0.1; done
apt-get purge -qq -y outboard
[ "$(systemctl is-active outboard@default)" = inactive ]
[ ! -e /etc/systemd/system/nginx.service.d ]
systemctl restart nginx
ip link del hour1
rm -r /etc/outboard
userdel outboard
is_as_it_was
echo "all done"
