#!/bin/bash
# wire.sh COMMAND...
# Runs a command with a wire beside it: two taps, end0 and end1, on one bridge, for frames of 9,000 bytes.
set -eu
ip link add wire mtu 9000 type bridge
for end in end0 end1; do
	ip tuntap add $end mode tap multi_queue
	ip link set $end mtu 9000 master wire up
done
ip link set wire mtu 9000 up
exec "$@"
