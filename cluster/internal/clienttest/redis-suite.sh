#!/bin/sh
# Runs test units of Redis 7.0 against a node of sieved, and prints how many tests of each passed and failed:
#
#	redis-suite.sh [UNIT ...]
#
# REDIS_SOURCE is a directory with the sources of Redis 7.0; without it they are fetched with git. It needs go, tclsh,
# redis-cli and redis-benchmark. SIEVED is a build of sieved; without it one is made. OUTPUT is a directory for the full
# output of each unit.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
node=
finish() {
    [ -z "$node" ] || { kill "$node" && wait "$node"; } 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

if [ -n "${REDIS_SOURCE:-}" ]; then
    cp -r "$REDIS_SOURCE" "$work/redis"
else
    git clone -q --depth 1 --branch 7.0.15 https://github.com/redis/redis "$work/redis"
fi
output=${OUTPUT:-$work}
mkdir -p "$output"
# A server without functions and without some settings can be tested all the same, and a test that failed within MULTI
# does not fail those after it.
sed -i -e 's/^    if {\[catch {set retval \[uplevel 1 \$code\]} error\]} {$/    catch {r discard}; catch {r unwatch}\n&/' \
    "$work/redis/tests/support/test.tcl"
sed -i -e 's/^    r function flush$/    catch {r function flush}/' \
    -e 's/^        r config set \$param \$val$/        catch {r config set $param $val}/' "$work/redis/tests/support/server.tcl"
for program in redis-cli redis-benchmark redis-server; do
    ln -sf "$(command -v $program)" "$work/redis/src/$program"
done

sieved=${SIEVED:-$work/sieved}
[ -n "${SIEVED:-}" ] || (cd "$here/../.." && go build -o "$sieved" ./cmd/sieved)
port=${PORT:-7891}
"$sieved" init --id 1 --dir "$work/node" --groups 1 >/dev/null
"$sieved" --id 1 --dir "$work/node" --listen "127.0.0.1:$port" ${SIEVED_FLAGS:-} >"$output/node.log" 2>&1 &
node=$!
tries=0
until redis-cli -p "$port" set ready 1 2>/dev/null | grep -q OK; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || { cat "$output/node.log" >&2; exit 1; }
    sleep 0.1
done

[ $# -gt 0 ] || set -- type/string type/incr bitops bitfield expire keyspace scan dump multi protocol quit slowlog \
    latency-monitor introspection introspection-2
# count counts the lines that begin with a word in brackets and in colour.
count() { grep -ac "^\[[^a-z]*m$1[^a-z]*m\]: " "$log" || true; }
cd "$work/redis"
printf '| %-22s | %6s | %6s |\n' unit passed failed
for unit; do
    log=$output/$(echo "$unit" | tr / -).txt
    timeout "${UNIT_SECONDS:-120}" tclsh tests/test_helper.tcl --host 127.0.0.1 --port "$port" --cluster-mode --durable \
        --ignore-encoding --tags "-needs:debug -slow" --single "unit/$unit" >"$log" 2>&1 || true
    printf '| %-22s | %6s | %6s |\n' "\`$unit\`" "$(count ok)" "$(count err)"
done
