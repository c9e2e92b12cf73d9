#!/bin/sh
# Sees to the Debian packages that outboard needs.
#
#   scripts/deps.sh build|demo|test|lab
#
# As root it installs what is missing (and starts no service); otherwise it prints the one command
# that does, and fails.
set -eu

# A package is there if its probe is: a command, or a header file.
build='clang=clang llvm-strip=llvm /usr/include/bpf/bpf_helpers.h=libbpf-dev cc=gcc'
demo="$build ip=iproute2 ethtool=ethtool curl=curl nginx=nginx-light"
test="$demo wrk=wrk redis-server=redis-server redis-cli=redis-tools
      sockperf=sockperf tshark=tshark valgrind=valgrind
      ab=apache2-utils h2load=nghttp2-client httperf=httperf iptables-legacy=iptables nft=nftables
      /lib/systemd/system/apache2.service=apache2 haproxy=haproxy python3=python3 dh=debhelper lintian=lintian
      zsh=zsh fish=fish man=man-db memcached=memcached
      pg_ctlcluster=postgresql"
# What only experiments of `outboard lab` need.
lab="$test /usr/include/zmq.h=libzmq3-dev
     /usr/lib/nginx/modules/ngx_http_lua_module.so=libnginx-mod-http-lua
     /usr/share/lua/5.1/nginx/redis.lua=lua-nginx-redis"

case "${1:-}" in
    build) wanted=$build ;;
    demo) wanted=$demo ;;
    test) wanted=$test ;;
    lab) wanted=$lab ;;
    *)
        echo "usage: $0 build|demo|test|lab" >&2
        exit 2
        ;;
esac

# The demo cannot do without, so that nothing is built in vain.
if [ "$1" = demo ]; then
    read -r inside outside count </proc/self/uid_map
    if [ "$(id -u)" -ne 0 ] || [ "$inside $outside $count" != "0 0 4294967295" ]; then
        echo "make demo needs root of the machine, since the kernel lets nobody else load the engine's XDP" \
            "program, not even in a user namespace; run: make build && sudo target/release/outboard demo" >&2
        exit 1
    fi
fi

PATH="$PATH:/usr/sbin:/sbin"
missing=
for entry in $wanted; do
    probe=${entry%%=*}
    case "$probe" in
        /*) [ -e "$probe" ] || missing="$missing ${entry#*=}" ;;
        *) command -v "$probe" >/dev/null || missing="$missing ${entry#*=}" ;;
    esac
done

if ! command -v cargo >/dev/null; then
    echo "outboard is written in Rust and needs cargo 1.90 or newer: https://rustup.rs" >&2
    exit 1
fi
# Miri belongs to nightly Rust. Where that is, miri is fetched; where it is not, or nothing can be
# fetched, the gate says that it skips the step.
nightly() { rustup toolchain list 2>/dev/null | grep -q ^nightly; }
if [ "$1" = test ] && nightly && ! cargo +nightly miri --version >/dev/null 2>&1; then
    timeout 120 rustup component add --toolchain nightly miri rust-src >/dev/null 2>&1 || true
fi
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
    echo "outboard needs some packages; this installs them:" >&2
    echo "  sudo apt-get install --no-install-recommends$missing" >&2
    exit 1
fi

echo "installing$missing"
# Debian starts a server as soon as it is installed; nobody asked for that here.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # a list of words is meant
install() { apt-get install -qq -y --no-install-recommends $missing >/dev/null; }
install 2>/dev/null || { apt-get update -qq && install; }
