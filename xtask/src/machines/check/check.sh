#!/bin/bash
# The check, run inside an emulated machine: its two interfaces are the ends of one wire, and each
# gets a namespace of its own.
#
#   check.sh BINARIES MEGABYTES
#
# What came of it is said in lines "RESULT name value"; the rest is for who wants to know why.
set -u
binaries=$1 megabytes=$2
outboard=$binaries/outboard
result() { echo "RESULT $1 $2"; }
# Waits until a command succeeds; nothing here asserts on time, the emulator is slow.
await() { for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return 0; sleep 0.2; done; return 1; }
verdict() { if [ "$2" = "$3" ]; then result "$1" yes; else result "$1" no; fi; }

cd "$(mktemp -d)" && mkdir site /run/outboard
result kernel "$(uname -r)"
set -- $(cd /sys/class/net && for nic in *; do [ -e "$nic/device" ] && echo "$nic"; done)
near=$1 far=$2
result driver "$(basename "$(readlink /sys/class/net/$near/device/driver)")"
# Debian 12's emulator cuts large segments into IP fragments instead of segments.
ethtool -K "$near" tso off
ethtool -K "$far" tso off
ip netns add near && ip netns add far
ip link set "$near" netns near && ip link set "$far" netns far
ip -n near addr add 10.9.0.1/24 dev "$near" && ip -n far addr add 10.9.0.2/24 dev "$far"
ip -n near link set lo up && ip -n far link set lo up
ip -n near link set "$near" up && ip -n far link set "$far" up
carrier() { ip -n near link show "$near" | grep -q LOWER_UP && ip -n far link show "$far" | grep -q LOWER_UP; }
await carrier || result carrier no

head -c "${megabytes}M" /dev/urandom > site/big
echo small > site/small
whole=$(sha256sum < site/big)
in_near() { ip netns exec near "$@"; }
in_far() { ip netns exec far "$@"; }
get() { in_far curl -s -m 300 "http://10.9.0.1:$1/$2"; }

engine() {
	# Directly, so that the number is the engine's own: a function would be another process.
	ip netns exec near "$outboard" engine -i "$near" > "$1" 2>&1 &
	engine=$!
	await grep -q 'engine running' "$1"
}
counted() { in_near "$outboard" stats | awk -v name="$1" '$1 == "steering" && $2 == name { print $3 }'; }

engine first.log || result started no
grep -q 'generic hook' first.log && result xdp generic || result xdp native
offloads=$(sed -n 's/.*engine running.*offloads="\([^"]*\)".*/\1/p' first.log)
case " $offloads " in *" txcsum "*) result checksum device ;; *) result checksum software ;; esac
case " $offloads " in *" sg "*) result buffers several ;; *) result buffers one ;; esac
ip netns exec near "$outboard" serve site -L 0.0.0.0:8080 > serve.log 2>&1 &
serve=$!
await grep -q 'by the engine' serve.log
verdict page "$(get 8080 small)" small
verdict down "$(get 8080 big | sha256sum)" "$whole"
cat > receive.py <<'PYTHON'
import hashlib, socket
listener = socket.create_server(("0.0.0.0", 9000))
print("listening", flush=True)
connection, _ = listener.accept()
digest = hashlib.sha256()
while data := connection.recv(1 << 16):
    digest.update(data)
connection.sendall(digest.hexdigest().encode())
PYTHON
cat > send.py <<'PYTHON'
import socket
connection = socket.create_connection(("10.9.0.1", 9000))
with open("site/big", "rb") as file:
    connection.sendfile(file)
connection.shutdown(socket.SHUT_WR)
print(connection.recv(64, socket.MSG_WAITALL).decode() + "  -")
PYTHON
in_near "$outboard" run --strict -- python3 receive.py > receive.log 2>&1 &
await grep -q listening receive.log
verdict up "$(in_far timeout 300 python3 send.py)" "$whole"
engine_frames=$(counted engine) fell_back=$(counted kernel_no_receiver)
result frames "${engine_frames:-0}"
result fell_back "${fell_back:-0}"

in_near "$outboard" stats > first.stats
kill -KILL $engine
wait $engine 2>/dev/null
verdict without_engine "$(get 8080 small)" small
engine second.log
steered() { get 8080 small; [ "$(counted engine)" -gt 0 ]; }
await steered && verdict restart "$(get 8080 big | sha256sum)" "$whole" || result restart no

result checksum_errors "$(in_far nstat -asz TcpInCsumErrors | awk '$1 == "TcpInCsumErrors" { print $2 }')"
in_near "$outboard" stats > second.stats
kill -TERM $serve $engine
wait $engine
result stop $?

# A VLAN on the same wire. Its own device can be served; the one below only if tags stay on the frames.
in_near ip link add link "$near" name near7 type vlan id 7 && in_far ip link add link "$far" name far7 type vlan id 7
in_near ip addr add 10.9.7.1/24 dev near7 && in_far ip addr add 10.9.7.2/24 dev far7
in_near ip link set near7 up && in_far ip link set far7 up
ip netns exec near "$outboard" engine -i near7 > vlan.log 2>&1 &
engine=$!
await grep -q 'engine running' vlan.log
ip netns exec near "$outboard" serve site -L 0.0.0.0:8081 > vlan-serve.log 2>&1 &
serve=$!
await grep -q 'by the engine' vlan-serve.log
by_vlan=$(in_far curl -s -m 300 http://10.9.7.1:8081/big | sha256sum)
if [ "$(counted engine)" -gt 0 ]; then verdict vlan "$by_vlan" "$whole"; else result vlan no; fi
kill -TERM $serve $engine
wait $engine
if in_near ethtool -k "$near" | grep -q 'rx-vlan-offload: on'; then
	# The device takes tags off: an engine on it has to say so, and to start when it does as advised.
	if timeout 60 ip netns exec near "$outboard" engine -i "$near" > tags.log 2>&1; then result tags no; fi
	if grep -q 'VLAN devices on it (near7)' tags.log; then tags='has to leave them on'; else tags=no; fi
	in_near ethtool -K "$near" rxvlan off
else
	tags='stay on'
fi
engine tags-on.log && [ $? = 0 ] || tags=no
# Whoever comes by the VLAN for the address of the interface below finds the kernel, not the engine.
ip netns exec near "$outboard" serve site -L 0.0.0.0:8082 > tags-serve.log 2>&1 &
serve=$!
await grep -q 'by the engine' tags-serve.log
in_far ip route add 10.9.0.1/32 dev far7 src 10.9.7.2
before=$(counted engine)
[ "$(in_far curl -s -m 300 http://10.9.0.1:8082/small)" = small ] || tags=no
[ "$(counted engine)" = "$before" ] || tags=no
result tags "$tags"
kill -TERM $serve $engine
wait $engine
cat vlan.log vlan-serve.log tags.log tags-on.log tags-serve.log
in_far nstat -as
cat first.log first.stats second.log second.stats serve.log receive.log
