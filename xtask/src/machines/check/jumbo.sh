# Frames of 9,000 bytes: an engine carries them, or says in a line why it does not start.

frames_of() { in_near ip link set "$near" mtu "$1" && in_far ip link set "$far" mtu "$1" && await carrier; }
# by_kernel PORT: the hash of a megabyte as a program on the kernel has received it, soon or not at all.
by_kernel() {
	in_near timeout 60 python3 receive.py "$1" > "receive-$1.log" 2>&1 &
	await grep -q listening "receive-$1.log"
	in_far timeout 30 python3 send.py "$1" megabyte
}

# QEMU's vmxnet3 lets a frame have several buffers only if large receive offload is on when the device starts: the
# driver says only then how many, and it takes nothing for one. Without, it drops all that is longer than the first
# buffer, 3,072 bytes, whoever receives. The kernel has turned it off for the engines before, and does so again.
aside=
if in_near ethtool -k "$near" | grep -qx 'large-receive-offload: o[nf]*'; then
	in_near ethtool -K "$near" lro off
	frames_of 9000
	head -c 1M site/big > megabyte
	[ "$(by_kernel 9004)" = "$(sha256sum < megabyte)" ] || aside=' (lro on at its start: with it off, not without an engine either)'
	frames_of 1500
	in_near ethtool -K "$near" lro on
fi
if frames_of 9000; then
	if engine jumbo.log; then
		serve 8083 jumbo-serve.log
		down=$(get 8083 big | sha256sum) up=$(uploaded 9003)
		if [ "$down" = "$whole" ] && [ "$up" = "$whole" ] && [ "$(counted engine)" -gt 1000 ]; then
			result jumbo "yes$aside"
		else
			echo "jumbo: $down down; $up up; $(counted engine) frames"
			in_near ethtool -S "$near" | grep -v ': 0$'
			result jumbo no
		fi
		in_near "$outboard" stats > jumbo.stats
		kill -TERM $serve
		ends $engine
	else
		result jumbo no
	fi
	frames_of 1500
else
	result jumbo 'not the device'
fi
