"""Uses a cluster with redis-py's cluster client. Usage: client.py HOST:PORT... See ../doc.go."""
import sys
import time

from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import (
    ClusterDownError,
    ConnectionError,
    LockNotOwnedError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TimeoutError,
)


def ask(request):
    """Asks the test to change the leader of a key."""
    print(request, flush=True)
    answer = sys.stdin.readline()
    assert answer == "done\n", answer


def connect():
    """Returns a client that knows all nodes."""
    nodes = [address.rsplit(":", 1) for address in sys.argv[1:]]
    return RedisCluster(
        startup_nodes=[ClusterNode(host, int(port)) for host, port in nodes], decode_responses=True, socket_timeout=10
    )


def eventually(c, do):
    """Calls do with a client until it succeeds. Only errors of a change of the leader may come before."""
    failures, limit = 0, time.monotonic() + 120
    while True:
        try:
            c[0] = c[0] or connect()
            return do(c[0]), failures
        except (ClusterDownError, ConnectionError, TimeoutError) as err:
            last = err
        except RedisClusterException as err:
            # A slot has no leader yet. Or redis-py 4.3 has met a node that does not answer: it then tries to copy a
            # lock, and cannot be used any more.
            last, c[0] = err, None
        except RedisError as err:
            if not str(err).startswith(("UNKNOWN", "TRYAGAIN", "TTL exhausted")):
                raise
            last = err
        failures += 1
        assert time.monotonic() < limit, last
        time.sleep(0.02)


def strings(c):
    for i in range(50):
        assert c.set(f"py:{i}", i)
    assert c.mget_nonatomic([f"py:{i}" for i in range(50)]) == [str(i) for i in range(50)]
    assert c.get("py:absent") is None
    assert c.mset({"py:{m}1": "a", "py:{m}2": "b"})
    assert c.mget("py:{m}1", "py:{m}9", "py:{m}2") == ["a", None, "b"]
    assert c.incr("py:n", 7) == 7 and c.incr("py:n") == 8
    try:
        c.incr("py:{m}1")
        raise AssertionError("a letter was incremented")
    except ResponseError as err:
        assert "not an integer" in str(err), err


def expiry(c):
    assert c.set("py:e", "v", ex=100)
    assert 90 < c.ttl("py:e") <= 100
    assert c.persist("py:e") and c.ttl("py:e") == -1
    assert c.pexpire("py:e", 50)
    limit = time.monotonic() + 120
    while c.exists("py:e"):
        assert time.monotonic() < limit, "the key does not expire"
        time.sleep(0.01)


def pipeline(c):
    p = c.pipeline()
    for i in range(100):
        p.incr(f"py:p{i}")
    assert p.execute() == [1] * 100
    found = c.scan_iter("py:p*", count=7)
    assert sorted(found) == sorted(f"py:p{i}" for i in range(100))


def locks(c):
    """Takes and releases a lock by redis-py's scripts."""
    lock, other = c.lock("py:lock", timeout=60), c.lock("py:lock", timeout=60)
    assert lock.acquire(blocking=False) and not other.acquire(blocking=False)
    assert lock.extend(60) and 60 < c.ttl("py:lock") <= 120
    assert lock.reacquire() and 0 < c.ttl("py:lock") <= 60
    other.local.token = "another"
    try:
        other.release()
        raise AssertionError("the lock of another was released")
    except LockNotOwnedError:
        pass
    lock.release()
    assert other.acquire(blocking=False)
    other.release()


def transfer(c):
    assert c.set("py:{moves}", 1)
    ask("transfer py:{moves}")
    assert c.incr("py:{moves}") == 2
    assert c.get("py:{moves}") == "2"


def death(client):
    c = [client]
    for i in range(20):
        assert client.set(f"py:{{dies}}{i}", i)
    ask("kill py:{dies}")
    _, failures = eventually(c, lambda c: c.set("py:{dies}20", 20))
    print(f"note the first write succeeded after {failures} that failed", flush=True)
    for i in range(21, 100):
        eventually(c, lambda c: c.set(f"py:{{dies}}{i}", i))
    for i in range(100):
        value, _ = eventually(c, lambda c: c.get(f"py:{{dies}}{i}"))
        assert value == str(i), (i, value)


def main():
    c = connect()
    for check in strings, expiry, pipeline, locks, transfer, death:
        check(c)
    print("ok", flush=True)


main()
