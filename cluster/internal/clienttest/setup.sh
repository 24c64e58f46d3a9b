#!/bin/sh
# Prints the missing packages of clients of Redis, with which tests use a cluster, and of Redis itself, with which
# cluster/internal/server compares its replies. See .ci/setup.
set -u

command -v redis-server >/dev/null 2>&1 || echo "redis-server (cluster: tests that compare with Redis)"
command -v redis-cli >/dev/null 2>&1 || echo "redis-tools (cluster: tests with redis-cli)"
found=
for python in python3 /usr/bin/python3; do
    "$python" -c 'import redis.cluster' >/dev/null 2>&1 && found=1
done
[ -n "$found" ] || echo "python3-redis (cluster: tests with redis-py)"
command -v node >/dev/null 2>&1 || echo "nodejs (cluster: tests with ioredis)"
command -v npm >/dev/null 2>&1 || echo "npm (cluster: tests with ioredis)"
exit 0
