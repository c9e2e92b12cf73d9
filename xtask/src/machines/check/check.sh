#!/bin/bash
# The check, run inside an emulated machine: two interfaces are the ends of one wire, and each gets a
# namespace of its own.
#
#   check.sh BINARIES MEGABYTES INTERFACES
#
# INTERFACES is `emulated` (the machine's own two) or `veth` (a pair that is made here). What came of it
# is said in lines "RESULT name value"; the rest is for who wants to know why.
set -u
parts=$(dirname "$(readlink -f "$0")")
binaries=$1 megabytes=$2 interfaces=$3
outboard=$binaries/outboard
result() { echo "RESULT $1 $2"; }
# Waits until a command succeeds; nothing here asserts on time, the emulator is slow.
await() { for _ in $(seq "${patience:-300}"); do "$@" >/dev/null 2>&1 && return 0; sleep 0.2; done; return 1; }
verdict() { if [ "$2" = "$3" ]; then result "$1" yes; else result "$1" no; fi; }
in_near() { ip netns exec near "$@"; }
in_far() { ip netns exec far "$@"; }

cd "$(mktemp -d)" && mkdir site /run/outboard
result kernel "$(uname -r)"
ip netns add near && ip netns add far
if [ "$interfaces" = veth ]; then
	near=near0 far=far0
	ip link add $near netns near numrxqueues 2 numtxqueues 2 type veth peer name $far netns far numrxqueues 2 numtxqueues 2
	result driver veth
else
	set -- $(cd /sys/class/net && for nic in *; do [ -e "$nic/device" ] && echo "$nic"; done)
	near=$1 far=$2
	result driver "$(basename "$(readlink /sys/class/net/$near/device/driver)")"
	ip link set "$near" netns near && ip link set "$far" netns far
	# Debian 12's emulator cuts large segments of these two into IP fragments instead of segments.
	case $(in_near ethtool -i "$near") in *e1000e* | *vmxnet3*)
		in_near ethtool -K "$near" tso off && in_far ethtool -K "$far" tso off
		wrong=' (tso off)' ;;
	esac
fi
cuts() { in_near ethtool -k "$near" | grep -q '^tcp-segmentation-offload: on'; }
if cuts; then result segments 'the device'; else result segments "the kernel${wrong:-}"; fi
ip -n near addr add 10.9.0.1/24 dev "$near" && ip -n far addr add 10.9.0.2/24 dev "$far"
ip -n near link set lo up && ip -n far link set lo up
ip -n near link set "$near" up && ip -n far link set "$far" up
carrier() { ip -n near link show "$near" | grep -q LOWER_UP && ip -n far link show "$far" | grep -q LOWER_UP; }
await carrier || result carrier no

head -c "${megabytes}M" /dev/urandom > site/big
echo small > site/small
whole=$(sha256sum < site/big)
# How long a transfer and a part may take, in seconds: twenty times what they do on an idle machine.
transfer=120 limit=400
get() { in_far curl -s -m $transfer "http://10.9.0.1:$1/$2"; }
# engine LOG [OPTION...]: starts one; its number is $engine.
engine() {
	local log=$1 && shift
	# Directly, so that the number is the engine's own: a function would be another process.
	ip netns exec near "$outboard" engine -i "$near" "$@" > "$log" 2>&1 &
	engine=$!
	await grep -q 'engine running' "$log"
}
# serve PORT LOG: an `outboard serve` on the engine; its number is $serve.
serve() {
	ip netns exec near "$outboard" serve site -L "0.0.0.0:$1" > "$2" 2>&1 &
	serve=$!
	await grep -q 'by the engine' "$2"
}
# counted REASON...: frames by what became of them, of all these together.
counted() { in_near "$outboard" stats | awk -v names=" $* " '$1 == "steering" && index(names, " " $2 " ") { sum += $3 } END { print sum + 0 }'; }
ends() { kill -TERM "$@" && wait "$@"; }

cat > receive.py <<'PYTHON'
import hashlib, socket, sys
listener = socket.create_server(("0.0.0.0", int(sys.argv[1])))
print("listening", flush=True)
connection, _ = listener.accept()
digest = hashlib.sha256()
while data := connection.recv(1 << 16):
    digest.update(data)
connection.sendall(digest.hexdigest().encode())
PYTHON
cat > send.py <<'PYTHON'
import socket, sys
connection = socket.create_connection(("10.9.0.1", int(sys.argv[1])))
with open(sys.argv[2], "rb") as file:
    connection.sendfile(file)
connection.shutdown(socket.SHUT_WR)
print(connection.recv(64, socket.MSG_WAITALL).decode() + "  -")
PYTHON
# uploaded PORT: the hash of the file as a program on the engine has received it.
uploaded() {
	in_near "$outboard" run --strict -- python3 receive.py "$1" > "receive-$1.log" 2>&1 &
	await grep -q listening "receive-$1.log"
	in_far timeout $transfer python3 send.py "$1" site/big
}

# all_gone: ends what runs in the two namespaces.
all_gone() {
	local numbers
	for _ in $(seq 30); do
		numbers="$(ip netns pids near) $(ip netns pids far)"
		[ -n "${numbers// /}" ] || return 0
		kill -KILL $numbers 2>/dev/null
		sleep 1
	done
	return 1
}
# part NAME: runs one in a shell of its own. One that does not end in time is ended with all that it started, so
# that the next one finds the interfaces as they were and nothing beside it.
part() {
	echo "-- $1"
	set -m # A process group of its own, for loops that start one client after another.
	(set +m && . "$parts/$1.sh") &
	set +m
	local shell=$! until=$((SECONDS + limit))
	while kill -0 $shell 2>/dev/null && [ $SECONDS -lt $until ]; do sleep 0.5; done
	if kill -0 $shell 2>/dev/null; then
		result "$1" "did not end in $limit s"
		kill -KILL -- -$shell
		ip netns pids near | xargs -r ps -fp
		all_gone || result "$1" 'left a process that does not end'
		in_near ip link set "$near" mtu 1500 && in_far ip link set "$far" mtu 1500
		await carrier
	fi
	wait $shell 2>/dev/null
}
for name in serving programs jumbo queues respond vlans; do part $name; done
in_far nstat -as
tail -n +1 -- *.log *.stats
