# The stateless responder, each way in that needs no queue of netfilter.

answered() {
	ip netns exec near "$outboard" respond -i "$near" -L :8100 "$@" > respond.log 2>&1 &
	local respond=$!
	local tries
	# A slow machine takes its time to verify the program.
	for tries in $(seq 120); do
		in_far curl -s -m 5 -o /dev/null 'http://10.9.0.1:8100/?s=1k' && break
		sleep 0.5
	done
	local right=0
	for _ in 1 2 3; do
		[ "$(in_far curl -s -m 60 'http://10.9.0.1:8100/?s=1k' | wc -c)" = 1024 ] && right=$((right + 1))
	done
	kill -INT $respond
	wait $respond
	cat respond.log
	[ $right = 3 ]
}
if [ "$interfaces" = veth ]; then peer="--peer far/$far"; else peer=; fi
if answered $peer && answered --mode afxdp; then result respond yes; else result respond no; fi
