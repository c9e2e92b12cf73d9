# A VLAN on the same wire. Its own device can be served; the one below only if tags stay on the frames.
in_near ip link add link "$near" name near7 type vlan id 7 && in_far ip link add link "$far" name far7 type vlan id 7
in_near ip addr add 10.9.7.1/24 dev near7 && in_far ip addr add 10.9.7.2/24 dev far7
in_near ip link set near7 up && in_far ip link set far7 up
ip netns exec near "$outboard" engine -i near7 > vlan.log 2>&1 &
engine=$!
await grep -q 'engine running' vlan.log
serve 8081 vlan-serve.log
by_vlan=$(in_far curl -s -m $transfer http://10.9.7.1:8081/big | sha256sum)
if [ "$(counted engine)" -gt 0 ]; then verdict vlan "$by_vlan" "$whole"; else result vlan no; fi
kill -TERM $serve $engine
wait $engine
strips() { in_near ethtool -k "$near" | grep -q 'rx-vlan-offload: on'; }
if ! strips; then
	tags='stay on'
elif [ "$interfaces" = veth ]; then
	# Its other end decides: an engine on it has to say so, and to start when that does as advised.
	if timeout 60 ip netns exec near "$outboard" engine -i "$near" > tags.log 2>&1; then result tags no; fi
	if grep -q 'VLAN devices on it (near7)' tags.log; then tags='has to leave them on'; else tags=no; fi
	# What that leaves to a device is taken for a tag that is not in the frame.
	in_near ethtool -K "$near" rxvlan off && in_far ethtool -K "$far" txvlan off
else
	tags='are left on'
fi
engine tags-on.log && [ $? = 0 ] || tags=no
strips && tags=no
# Whoever comes by the VLAN for the address of the interface below finds the kernel, not the engine.
serve 8082 tags-serve.log
in_far ip route add 10.9.0.1/32 dev far7 src 10.9.7.2
before=$(counted engine)
[ "$(in_far curl -s -m $transfer http://10.9.0.1:8082/small)" = small ] || tags=no
[ "$(counted engine)" = "$before" ] || tags=no
kill -TERM $serve $engine
wait $engine
# As it was.
[ "$tags" != 'are left on' ] || strips || tags=no
result tags "$tags"
