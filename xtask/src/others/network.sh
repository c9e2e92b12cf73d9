#!/bin/sh
# network.sh SCRATCH [OUTBOARD] -- COMMAND...
# Runs a command in a network of its own, which goes with it: on an engine if there is one. What was
# connected is left in SCRATCH/engine.json and SCRATCH/kernel.
set -eu
scratch=$1
shift
outboard=
if [ "$1" != -- ]; then
    outboard=$1
    shift
fi
shift

# What /sys says is of the network that it was mounted in.
mount -t sysfs none /sys
ip link set lo up
ip link add own0 type veth peer name other0
ip address add 10.77.0.1/24 dev own0
ip address add fd77::1/64 dev own0 nodad
ip link set own0 up
ip link set other0 up

status=0
if [ -n "$outboard" ]; then
    export OUTBOARD_SOCKET="$scratch/engine.sock"
    echo 'local = true' >"$scratch/engine.toml"
    "$outboard" engine -i own0 --config "$scratch/engine.toml" >"$scratch/engine.log" 2>&1 &
    engine=$!
    tries=0
    until "$outboard" stats >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || exit 99
        sleep 0.1
    done
    "$outboard" run -- "$@" || status=$?
    "$outboard" stats --json >"$scratch/engine.json"
    kill "$engine"
    wait "$engine" || true
else
    "$@" || status=$?
fi
cat /proc/net/snmp >"$scratch/kernel"
exit "$status"
