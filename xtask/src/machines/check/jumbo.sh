# Frames of 9,000 bytes: an engine carries them, or says in a line why it does not start.

if in_near ip link set "$near" mtu 9000 && in_far ip link set "$far" mtu 9000; then
	await carrier
	if engine jumbo.log; then
		serve 8083 jumbo-serve.log
		down=$(get 8083 big | sha256sum) up=$(uploaded 9003)
		if [ "$down" = "$whole" ] && [ "$up" = "$whole" ] && [ "$(counted engine)" -gt 1000 ]; then
			result jumbo yes
		else
			echo "jumbo: $down down, $up up, $(counted engine) frames"
			result jumbo no
		fi
		in_near "$outboard" stats > jumbo.stats
		kill -TERM $serve
		ends $engine
	else
		result jumbo no
	fi
	in_near ip link set "$near" mtu 1500 && in_far ip link set "$far" mtu 1500
	await carrier
else
	result jumbo 'not the device'
fi
