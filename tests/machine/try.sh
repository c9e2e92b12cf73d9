# Run under systemd as process 1: an engine, nginx on it, and what can happen to them.
trap 'echo "failed in line $LINENO"; systemctl --no-pager status "outboard@default" nginx; journalctl --no-pager -n 60' ERR

# What may take a while; the limit only ends a hang.
await() {
    local n=0
    until "$@"; do
        n=$((n + 1))
        [ $n -lt 600 ] || { echo "in vain: $*"; return 1; }
        sleep 0.1
    done
}
fetch() { ip netns exec client curl -sf --max-time 5 http://10.79.0.1/ >/dev/null; }
is_offloaded() { outboard ss -a sport = :80 | grep -q LISTEN; }
answers() { outboard stats >/dev/null 2>&1; }
pid() { systemctl show -P MainPID "$1"; }

ip link set lo up
ip netns add client
ip link add eth1 type veth peer name eth1 netns client
ip addr add 10.79.0.1/24 dev eth1
ip link set eth1 up
ip -n client addr add 10.79.0.2/24 dev eth1
ip -n client link set eth1 up

systemd-sysusers
systemd-tmpfiles --create outboard.conf
systemctl daemon-reload
mkdir -p /etc/outboard
echo 'interface = "eth1"' >/etc/outboard/default.toml
systemd-analyze verify outboard@default.service 2>&1 | tee /out/verify
if grep outboard /out/verify; then echo "verify has something to say"; exit 1; fi
systemd-analyze security --threshold=30 --no-pager outboard@default.service | tail -1

echo "-- ready when it says so, as a user of its own"
systemctl enable --now outboard@default
answers
[ "$(ps -o user= -p "$(pid outboard@default)")" = outboard ]
[ "$(systemctl show -P WatchdogUSec outboard@default)" = 30s ]
[ "$(systemctl show -P StatusText outboard@default)" = "engine default on eth1" ]

echo "-- a service on it"
outboard service enable nginx
systemctl restart nginx
await is_offloaded
await fetch
outboard explain "$(pid nginx)"
systemctl is-active nginx

echo "-- others, as their distribution starts them"
cat >/etc/haproxy/haproxy.cfg <<'END' || true
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend all
  bind 10.79.0.1:8081
  http-request return status 200 content-type text/plain string "hello"
END
[ ! -e /etc/apache2/ports.conf ] || echo 'Listen 10.79.0.1:8082' >/etc/apache2/ports.conf
sed -i 's/^-l .*/-l 10.79.0.1/' /etc/memcached.conf || true
cluster=$(ls /etc/postgresql/*/main/environment 2>/dev/null | head -1 || true)
if [ -n "$cluster" ]; then
    cluster=$(dirname "$cluster")
    echo "listen_addresses = '10.79.0.1'" >>"$cluster/postgresql.conf"
    cp -p "$cluster/environment" /tmp/environment
fi
version=$(basename "$(dirname "${cluster:-/none/none}")")
for one in haproxy:8081:haproxy apache2:8082:apache2 memcached:11211:memcached "postgresql@$version-main:5432:postgres"; do
    IFS=: read -r service port program <<<"$one"
    if ! systemctl cat "$service" >/dev/null 2>&1 || [ "$version:$program" = none:postgres ]; then
        echo "NOT HERE: $program"
        continue
    fi
    outboard service enable "$service"
    systemctl restart "$service"
    is_reached() { ip netns exec client timeout 5 bash -c ": <>/dev/tcp/10.79.0.1/$port" 2>/dev/null; }
    takes_it() { outboard ss -aHp sport = ":$port" | grep -q "LISTEN.*$program"; }
    accepts="outboard_listener_accepts_total{listener=\"10.79.0.1:$port\"}"
    has_counted() { outboard stats --prometheus | awk -v "name=$accepts" '$1 == name && $2 > 0 { n++ } END { exit !n }'; }
    await takes_it
    await is_reached
    await has_counted
    case $program in haproxy | apache2)
        # Its next generation of workers, too.
        for again in '' reload; do
            [ -z "$again" ] || systemctl reload "$service"
            await takes_it
            is_answered() { ip netns exec client curl -s --max-time 5 -o /dev/null "http://10.79.0.1:$port/"; }
            await is_answered
        done
        ;;
    esac
    outboard service disable "$service"
    systemctl restart "$service"
    is_left() { ! takes_it; }
    await is_left
    await is_reached
    systemctl stop "$service"
done
[ -z "$cluster" ] || cmp "$cluster/environment" /tmp/environment

echo "-- an engine that writes to the journal itself, as one of its own units"
ip link add eth2 type veth peer name eth3
ip link set eth2 up
systemd-run -q --unit=journal-engine -p Type=notify outboard engine --name journal -i eth2 --log-format journald
is_in_journal() { journalctl --no-pager -o json -u journal-engine F_NAME=journal | grep -q '"MESSAGE":"engine running"'; }
await is_in_journal
journalctl --no-pager -o json -u journal-engine F_NAME=journal | grep '"PRIORITY":"[56]"' | grep -q '"F_INTERFACE":"eth2"'
systemctl stop journal-engine
ip link del eth2

echo "-- reload"
echo 'drain_seconds = 1' >>/etc/outboard/default.toml
systemctl reload outboard@default
journalctl --no-pager -u outboard@default | grep 'changed: drain_seconds'
echo 'drain_seconds = "x"' >/etc/outboard/default.toml
if systemctl reload outboard@default; then echo "a wrong file was taken"; exit 1; fi
systemctl is-active outboard@default
printf 'interface = "eth1"\ndrain_seconds = 1\n' >/etc/outboard/default.toml

echo "-- killed, it comes back, and the kernel serves meanwhile"
before=$(pid outboard@default)
systemctl kill --signal=KILL outboard@default
await fetch
comes_back() { [ "$(pid outboard@default)" != "$before" ] && answers; }
await comes_back
await is_offloaded
await fetch

echo "-- stopped by a signal, it is missed by the watchdog and started anew"
sed 's/WatchdogSec=30/WatchdogSec=2/' /lib/systemd/system/outboard@.service >/etc/systemd/system/outboard@.service
systemctl daemon-reload
systemctl restart outboard@default
await answers
before=$(pid outboard@default)
kill -STOP "$before"
await comes_back
journalctl --no-pager -u outboard@default | grep -i watchdog
rm /etc/systemd/system/outboard@.service
systemctl daemon-reload

echo "-- taken back"
await is_offloaded
outboard service disable nginx
systemctl restart nginx
systemctl disable --now outboard@default
[ ! -e /etc/systemd/system/nginx.service.d ]
await fetch
[ "$(systemctl is-failed outboard@default)" != failed ]
systemctl stop nginx
echo "all done"
