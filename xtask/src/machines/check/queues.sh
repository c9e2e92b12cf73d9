# Every receive queue is served; and more queues and fewer while clients load: nobody may notice. Fewer need a
# reload, since the kernel takes no queue away that is served. Some drivers let nobody change the number while
# an XDP program runs, and some not at all.

# channels HEADING: how many there are under "Pre-set maximums" or "Current hardware settings"; a veth counts
# those that receive apart.
channels() {
	in_near ethtool -l "$near" 2>/dev/null | awk -v heading="$1" '
		/^[PC].*:$/ { here = index($0, heading) }
		here && /^(RX|Combined):/ && $2 + 0 > 0 { count = $2 }
		END { print count + 0 }'
}
set_channels() { in_near ethtool -L "$near" combined "$1" 2>/dev/null || in_near ethtool -L "$near" rx "$1" tx "$1"; }
# load FILE: a client that comes again and again until FILE is gone, and then says what it got.
load() { while [ -e "$1" ]; do get 8084 small; get 8084 big | sha256sum; done | sort | uniq -c > "$1.got"; }
# on_queue N: frames that came to it, or nothing if there is no such queue.
on_queue() { in_near "$outboard" stats -a | awk -v queue="$1" '$1 == "queue_frames" && $2 == queue { print $4 }'; }

# by_driver N: frames that the driver itself has counted on a queue; nothing if it does not tell.
by_driver() {
	in_near ethtool -S "$near" | awk -v queue="$1" '
		$1 == "rx_queue_" queue "_packets:" { print $2 }
		/^ *[TR]x Queue#:/ { here = $1 == "Rx" && $3 == queue }
		here && /^ *ucast pkts rx:/ { print $NF }'
}
# another_number: the driver changes the number of queues, as long as no XDP program is there.
another_number() { set_channels 1 && set_channels 2; }

if [ "$(channels Pre-set)" -lt 2 ]; then
	result by_queue 'one only'
	result changed 'one only'
	return
fi
another_number && changes=yes || changes=no
echo 'queues = "all"' > queues.toml
engine queues.log -c queues.toml
serve 8084 queues-serve.log
for _ in $(seq 40); do get 8084 small; done > /dev/null
by_queue="$(on_queue 0), $(on_queue 1)"
# Where no frame comes to the second one by the driver's count either, nobody else has got it.
if [ "$(on_queue 1)" = 0 ] && [ "$(by_driver 1)" = 0 ]; then by_queue+=' (the device uses one)'; fi
result by_queue "$by_queue"
if [ $changes = yes ]; then
	touch loading && load loading &
	load=$!
	sleep 2
	echo 'queues = [0]' > queues.toml
	in_near "$outboard" reload
	if patience=30 await set_channels 1; then
		sleep 5
		echo 'queues = "all"' > queues.toml
		in_near "$outboard" reload
		patience=30 await set_channels 2 || echo 'queues: no second one any more'
		sleep 8
		changed=yes
	else
		changed='not by the driver under XDP'
	fi
	rm loading
	wait $load
	cat loading.got
	# Small pages and whole files, and nothing else.
	kinds=$(awk '{ print $2 }' loading.got | sort)
	wanted=$(printf '%s\n' small "${whole%% *}" | sort)
	now=$(channels Current)
	echo "queues: frames $by_queue, then $(on_queue 0), $(on_queue 1); now $now"
	[ "$kinds" = "$wanted" ] && [ "$now" = 2 ] || changed=no
else
	changed='not supported by the driver'
fi
result changed "$changed"
in_near "$outboard" stats > queues.stats
kill -TERM $serve
ends $engine
