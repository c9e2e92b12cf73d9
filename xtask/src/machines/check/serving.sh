# An engine with `outboard serve` and an unmodified program: both ways, without the engine, with another.

engine first.log || result started no
grep -q 'generic hook' first.log && result xdp generic || result xdp native
offloads=$(sed -n 's/.*engine running.*offloads="\([^"]*\)".*/\1/p' first.log)
case " $offloads " in *" txcsum "*) result checksum device ;; *) result checksum software ;; esac
case " $offloads " in *" sg "*) result buffers several ;; *) result buffers one ;; esac
grep -q 'engine running.*zero_copy=true' first.log && result zero_copy yes || result zero_copy no
serve 8080 serve.log
verdict page "$(get 8080 small)" small
verdict down "$(get 8080 big | sha256sum)" "$whole"
verdict up "$(uploaded 9000)" "$whole"
result frames "$(counted engine)"
# For whatever reason: a queue without a socket, an engine that did not come in time, a share.
result fell_back "$(counted kernel_no_receiver kernel_engine_stale kernel_share)"

in_near "$outboard" stats > first.stats
kill -KILL $engine
wait $engine 2>/dev/null
verdict without_engine "$(get 8080 small)" small
engine second.log
steered() { get 8080 small; [ "$(counted engine)" -gt 0 ]; }
await steered && verdict restart "$(get 8080 big | sha256sum)" "$whole" || result restart no

result checksum_errors "$(in_far nstat -asz TcpInCsumErrors | awk '$1 == "TcpInCsumErrors" { print $2 }')"
in_near "$outboard" stats > second.stats
kill -TERM $serve $engine
wait $engine
result stop $?
