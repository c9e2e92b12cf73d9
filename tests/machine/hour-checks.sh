# What is looked at after each block of docs/first-hour.md, by its heading.
metric() { curl -s http://127.0.0.1:9464/metrics | awk -v "name=$1" '$1 == name { print $2 }'; }
engine() { systemctl show -P MainPID outboard@default; }
server() { systemctl show -P MainPID nginx; }
version() { dpkg-query -W -f '${Version}' outboard; }
fails() { if "$@"; then echo "it should fail: $*"; return 1; fi; }

# The packages were built before, one version after the other.
built=0
make() {
    [ "$*" = deb ]
    built=$((built + 1))
    rm -rf target/debian
    mkdir -p target/debian
    cp /out/packages/$built/*.deb target/debian/
}

check() {
    case $1 in
    "Install 1")
        [[ $(version) = 0.1.0-* ]]
        man -w outboard-engine outboard.toml
        systemctl cat outboard@default >/dev/null
        [ "$(sudo stat -c %U:%a /run/outboard)" = outboard:755 ]
        ;;
    "A network for it 1") on_client curl -s --max-time 5 -o /dev/null http://10.99.0.1/ ;;
    "An engine 1")
        [ "$(ps -o user= -p "$(engine)")" = outboard ]
        [ "$(curl -s http://127.0.0.1:9464/health)" = ok ]
        ;;
    "nginx on it 1") [ "$(metric outboard_tcp_passive_opens_total)" != 0.0 ] ;;
    "Look at it 1")
        [ "$(stat -c %s /tmp/hour.pcapng)" -gt 1000 ]
        ;;
    "Load it 1") ;;
    "Would it pay? 1") ;;
    "Change the configuration 1")
        began=$(engine) served=$(server)
        ;;
    "Upgrade 1")
        [[ $(version) = 0.1.1-* ]]
        [ "$(engine)" = "$began" ]
        [ "$(server)" = "$served" ]
        [ "$(curl -s http://127.0.0.1:9464/health)" = ok ]
        ;;
    "Upgrade 2")
        [ "$(engine)" != "$began" ]
        [ "$(server)" = "$served" ]
        sudo cmp /usr/bin/outboard "/proc/$(engine)/exe"
        # nginx has the library that it began with.
        sudo grep -q 'liboutboard_preload.so (deleted)' "/proc/$served/maps"
        ;;
    "Remove it 1") fails dpkg-query -W outboard ;;
    *)
        echo "nobody looks after $1"
        return 1
        ;;
    esac
}
