# nginx with curl, and redis with its own client: unmodified, as Debian packages them.

engine programs.log
mkdir nginx redis
cat > nginx.conf <<NGINX
user root; daemon off; worker_processes 2; pid $PWD/nginx/pid; error_log $PWD/nginx/error.log;
events { worker_connections 512; }
http { access_log off; client_body_temp_path $PWD/nginx; proxy_temp_path $PWD/nginx; fastcgi_temp_path $PWD/nginx;
	uwsgi_temp_path $PWD/nginx; scgi_temp_path $PWD/nginx; sendfile on;
	server { listen 8090; location / { root $PWD/site; } } }
NGINX
ip netns exec near "$outboard" run --strict -- nginx -c "$PWD/nginx.conf" > nginx-run.log 2>&1 &
nginx=$!
await get 8090 small
before=$(counted engine)
# Thirty that come at once, each with a connection of its own.
several=$(in_far curl -s -m $transfer -Z --parallel-immediate --parallel-max 30 -H 'Connection: close' \
	"http://10.9.0.1:8090/small?[1-30]" | grep -c small)
hash=$(get 8090 big | sha256sum)
if [ "$several" = 30 ] && [ "$hash" = "$whole" ] && [ "$(counted engine)" -gt "$((before + 100))" ]; then
	result nginx yes
else
	echo "nginx: $several of 30, $hash, frames $before to $(counted engine)"
	result nginx no
fi

ip netns exec near "$outboard" run --strict -- redis-server --bind 0.0.0.0 --port 6379 --save '' --dir "$PWD/redis" \
	--protected-mode no > redis-run.log 2>&1 &
redis=$!
ask() { in_far timeout $transfer redis-cli -h 10.9.0.1 "$@"; }
await ask ping
before=$(counted engine)
head -c 500000 site/big | base64 -w 0 > value
ask -x set key < value > /dev/null
ask get key > answer
if [ "$(sha256sum < value)" = "$(tr -d '\n' < answer | sha256sum)" ] && [ "$(counted engine)" -gt "$((before + 100))" ]; then
	result redis yes
else
	echo "redis: $(wc -c < value) bytes sent, $(wc -c < answer) back, frames $before to $(counted engine)"
	result redis no
fi
in_near "$outboard" stats > programs.stats
kill -TERM $nginx $redis
wait $nginx $redis
ends $engine
