package server

import (
	"fmt"
	"net"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
)

func TestWatchedKeysAbortATransaction(t *testing.T) {
	node := kvtest.New(1)
	addr := start(t, node, Options{})
	p, other := dial(t, "tcp", addr), dial(t, "tcp", addr)
	for _, c := range []struct{ name, before, after, want string }{
		{"a change by another connection", "SET k 0", "SET k 1", "nil"},
		{"a deletion", "SET k 0", "DEL k", "nil"},
		{"no change", "SET k 0", "GET k", "[:1]"},
		{"a bit that is set to what it is", "SET k 0", "SETBIT k 0 0", "[:1]"},
		{"a change of another key", "SET k 0", "SET other 1", "[:1]"},
		{"a flush", "SET k 0", "FLUSHALL", "nil"},
		{"a flush without the key", "SET other 0", "FLUSHDB", "[:1]"},
	} {
		p.do("DEL k")
		require.Equal(t, "+OK", p.do(c.before))
		require.Equal(t, "+OK", p.do("WATCH k"))
		other.do(c.after)
		require.Equal(t, "+OK", p.do("MULTI"))
		require.Equal(t, "+QUEUED", p.do("INCR k"))
		require.Equal(t, c.want, p.do("EXEC"), c.name)
	}
	p.do("SET k 0")
	p.do("WATCH k")
	other.do("SET k 1")
	require.Equal(t, "+OK", p.do("UNWATCH"))
	p.do("MULTI")
	require.Equal(t, "+QUEUED", p.do("CLIENT SETNAME n"))
	require.Equal(t, "+QUEUED", p.do("INCR k"))
	require.Equal(t, "+QUEUED", p.do("CLIENT GETNAME"))
	require.Equal(t, "[+OK :2 n]", p.do("EXEC"))
	p.do("WATCH k")
	require.Contains(t, p.do("WATCH elsewhere"), "-CROSSSLOT")
	p.do("MULTI")
	p.do("SET elsewhere 1")
	require.Contains(t, p.do("EXEC"), "-CROSSSLOT")
}

func TestAnAbortedTransactionChangesNothing(t *testing.T) {
	p := dial(t, "tcp", start(t, kvtest.New(1), Options{MaxRequest: 10_000}))
	for _, c := range [][]string{
		{"SET k 1", "CLIENT SETNAME n", "nothing"}, {"SET k 1", "GET k l"}, {"SET k 1", "DBSIZE"}, {"SET k 1", "MGET k l"},
		{"SETRANGE {k}1 9000 x", "SETRANGE {k}2 9000 x", "SETRANGE {k}3 9000 x"},
		{"SET k " + strings.Repeat("x", 6000), "SET k " + strings.Repeat("x", 6000)},
	} {
		require.Equal(t, "+OK", p.do("MULTI"))
		for _, line := range c {
			p.do(line)
		}
		require.Contains(t, p.do("EXEC"), "-EXECABORT", c[len(c)-1])
		require.Equal(t, ":0", p.do("DBSIZE"))
		require.Equal(t, "nil", p.do("CLIENT GETNAME"))
	}
}

func TestTransactionsWaitForTheirCommit(t *testing.T) {
	bubble(t, func(t testing.TB) {
		node := kvtest.New(1)
		p := dial(t, "tcp", start(t, node, Options{WriteTimeout: shortTimeout}))
		node.World().Hold(0)
		p.send(encode("MULTI") + encode("SET", "k", "1") + encode("WAIT", "0", "0") + encode("EXEC"))
		require.Equal(t, "+OK", p.reply())
		require.Equal(t, "+QUEUED", p.reply())
		require.Equal(t, "+QUEUED", p.reply())
		require.Contains(t, p.reply(), "-UNKNOWN")
		node.World().Release(0)
		require.Equal(t, "1", p.do("GET k"))
	})
}

func TestWithoutThePasswordNothingIsAnswered(t *testing.T) {
	_, _, addr := startWithClock(t, Options{Password: "secret"})
	p := dial(t, "tcp", addr)
	for _, line := range []string{"GET k", "PING", "INFO", "CLUSTER SLOTS", "RAFT.NODES", "MULTI"} {
		require.Equal(t, "-NOAUTH Authentication required.", p.do(line), line)
	}
	require.Contains(t, p.do("HELLO 3"), "-NOAUTH HELLO must be called")
	for _, line := range []string{"AUTH wrong", "AUTH other secret", "HELLO 3 AUTH default wrong", "AUTH default"} {
		require.Contains(t, p.do(line), "-WRONGPASS", line)
	}
	require.Equal(t, "-NOAUTH Authentication required.", p.do("PING"))
	require.Equal(t, "+OK", p.do("AUTH secret"))
	require.Equal(t, "+PONG", p.do("PING"))
	require.Equal(t, "+RESET", p.do("RESET"))
	require.Contains(t, p.do("PING"), "-NOAUTH")
	require.Contains(t, p.do("HELLO 3 AUTH default secret SETNAME me"), "proto :3")
	require.Equal(t, "me", p.do("CLIENT GETNAME"))
}

func TestExpiryFollowsTheClockOfTheLog(t *testing.T) {
	node := kvtest.New(1)
	p := dial(t, "tcp", start(t, node, Options{}))
	require.Equal(t, "+OK", p.do("SET k v PX 1500"))
	require.Equal(t, ":1500", p.do("PTTL k"))
	require.Equal(t, ":2", p.do("TTL k"))
	require.Equal(t, fmt.Sprintf(":%d", int64(kvtest.Epoch)+1500), p.do("PEXPIRETIME k"))
	node.World().Advance(1499 * time.Millisecond)
	require.Equal(t, ":1", p.do("PTTL k"))
	require.Equal(t, ":2", p.do("APPEND k w"))
	node.World().Advance(time.Millisecond)
	require.Equal(t, "nil", p.do("GET k"))
	require.Equal(t, ":-2", p.do("PTTL k"))
	require.Equal(t, ":0", p.do("DBSIZE"))
	require.Equal(t, ":1", p.do("SETNX k new"))
	require.Equal(t, ":-1", p.do("TTL k"))
}

func TestOwnCommands(t *testing.T) {
	node := kvtest.New(4)
	p := dial(t, "tcp", start(t, node, Options{}))
	require.Equal(t, "nil", p.do("CAS k a b"))
	p.do("SET k a PX 5000")
	require.Equal(t, ":0", p.do("CAS k x b"))
	require.Equal(t, ":1", p.do("CAS k a b"))
	require.Equal(t, "b", p.do("GET k"))
	require.Equal(t, ":5000", p.do("PTTL k"))

	for _, k := range []string{"{u}:a", "{u}:b", "{u}:c", "{u};"} {
		p.do("SET " + k + " " + k[3:])
	}
	require.Equal(t, "[{u}:a :a {u}:b :b {u}:c :c]", p.do("RANGE {u}: {u};"))
	require.Equal(t, "[{u}:a {u}:b]", p.do("RANGE {u}: {u}; KEYS LIMIT 2"))
	require.Equal(t, "[{u}:c {u}:b]", p.do("REVRANGE {u}: {u}; limit 2 keys"))
	require.Equal(t, "[]", p.do("RANGE {u}; {u}:"))
	require.Equal(t, "[]", p.do("RANGE {u}: {u}; LIMIT 0"))
	require.Contains(t, p.do("RANGE a b"), "-CROSSSLOT")
	require.Contains(t, p.do("RANGE {u}: {u}; LIMIT -1"), "-ERR LIMIT")

	node.SetOperator(func(args [][]byte) (any, error) {
		return []any{string(args[0]), int64(len(args)), nil, []any{[]byte("x")}}, nil
	})
	require.Equal(t, "[raft.nodes :2 nil [x]]", p.do("raft.nodes all"))
	require.Equal(t, "[EXPLAIN :2 nil [x]]", p.do("EXPLAIN k"))
	require.Contains(t, p.do("RAFT."), "-ERR unknown command")
}

func TestLongRepliesAreRefused(t *testing.T) {
	p := dial(t, "tcp", start(t, kvtest.New(1), Options{MaxReply: 10_000}))
	for i := range 10 {
		p.do(fmt.Sprintf("SET {u}%d %s", i, strings.Repeat("x", 2000)))
	}
	for _, line := range []string{"MGET {u}1 {u}2 {u}3 {u}4 {u}5 {u}6", "RANGE {u} {v} LIMIT 100"} {
		require.Contains(t, p.do(strings.ReplaceAll(line, "{v}", "{u}a")), "-ERR the reply exceeds 10000 bytes", line)
	}
	p.do("MULTI")
	for range 10 {
		p.do("GETSET {u}1 " + strings.Repeat("y", 2000))
	}
	require.Contains(t, p.do("EXEC"), "-EXECABORT")
	require.Equal(t, "x", p.do("GETRANGE {u}1 0 0"))
}

// scanAll iterates by SCAN and returns the sorted keys and the number of replies.
func scanAll(p *peer, options string) (keys []string, replies int) {
	cursor := "0"
	for {
		reply := strings.Trim(p.do("SCAN "+cursor+options), "[]")
		next, list, _ := strings.Cut(reply, " [")
		if list != "" {
			keys = append(keys, words(list)...)
		}
		replies++
		if cursor = strings.TrimSpace(next); cursor == "0" {
			sort.Strings(keys)
			return keys, replies
		}
	}
}

func TestScanReturnsEachKey(t *testing.T) {
	node := kvtest.New(4)
	p := dial(t, "tcp", start(t, node, Options{}))
	var b strings.Builder
	var want []string
	for i := range 3000 {
		key := fmt.Sprintf("{big}%d", i)
		if i%3 == 0 {
			key = fmt.Sprintf("k%d", i)
		}
		want = append(want, key)
		b.WriteString(encode("SET", key, "v"))
	}
	p.send(b.String())
	for range want {
		require.Equal(t, "+OK", p.reply())
	}
	sort.Strings(want)
	got, replies := scanAll(p, "")
	require.Equal(t, want, got)
	require.Greater(t, replies, 50)
	got, replies = scanAll(p, " COUNT 100000")
	require.Equal(t, want, got)
	require.Less(t, replies, 10)
	got, _ = scanAll(p, " MATCH {big}1? TYPE string")
	require.Equal(t, []string{"{big}10", "{big}11", "{big}13", "{big}14", "{big}16", "{big}17", "{big}19"}, got)
	got, _ = scanAll(p, " TYPE hash")
	require.Empty(t, got)
	require.Equal(t, ":3000", p.do("DBSIZE"))
	require.Contains(t, want, p.do("RANDOMKEY"))
	require.Equal(t, "[k0 k3 k6 k9]", "["+strings.Join(sorted(p.do("KEYS k?")), " ")+"]")

	slot := strings.TrimPrefix(p.do("CLUSTER KEYSLOT {big}"), ":")
	unknown := "SCAN " + strconv.FormatUint(12345<<14+atoi(slot), 10) + " COUNT 1"
	require.Contains(t, p.do(unknown), "{big}1 ", "a forgotten position begins the slot again")
}

func atoi(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

func sorted(reply string) []string {
	list := words(reply[1 : len(reply)-1])
	sort.Strings(list)
	return list
}

func TestNodeCommandsWorkOnTheGroupsThatANodeLeads(t *testing.T) {
	_, addrA, addrB := twoNodes(t)
	a, b := dial(t, "tcp", addrA), dial(t, "tcp", addrB)
	require.Equal(t, "+OK", b.do("SET foo 1"))
	require.Equal(t, "+OK", a.do("SET b 1"))
	require.Equal(t, ":1", a.do("DBSIZE"))
	require.Equal(t, "[b]", a.do("KEYS *"))
	require.Equal(t, "foo", b.do("RANDOMKEY"))
	require.Equal(t, "+OK", a.do("FLUSHALL"))
	require.Equal(t, "nil", a.do("GET b"))
	require.Equal(t, "1", b.do("GET foo"))
	require.Equal(t, ":1", b.do("WAIT 1 0"), "one of two nodes is a majority with this one")
}

func TestCloseAnswersWhatIsInFlight(t *testing.T) {
	node := kvtest.New(1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := New(node, Options{})
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	p, idle := dial(t, "tcp", l.Addr().String()), dial(t, "tcp", l.Addr().String())
	require.Equal(t, "+PONG", idle.do("PING"))
	node.World().Hold(0)
	p.send(encode("SET", "k", "v") + encode("INCR", "n"))
	require.Eventually(t, func() bool { return node.World().Waiting(0) == 2 }, time.Minute, time.Millisecond)

	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	require.True(t, idle.closed())
	require.ErrorIs(t, <-done, ErrClosed)
	node.World().Release(0)
	require.Equal(t, "+OK", p.reply())
	require.Equal(t, ":1", p.reply())
	require.True(t, p.closed())
	require.NoError(t, <-closed)
	require.NoError(t, s.Close(), "closing again does nothing")
	_, err = net.Dial("tcp", l.Addr().String())
	require.Error(t, err)
}

func TestTooManyClientsAreRejected(t *testing.T) {
	s, addr := startServer(t, kvtest.New(1), Options{MaxClients: 1, IdleTimeout: time.Hour})
	first := dial(t, "tcp", addr)
	require.Equal(t, "+PONG", first.do("PING"))
	second := dial(t, "tcp", addr)
	require.Equal(t, "-ERR max number of clients reached", second.reply())
	require.True(t, second.closed())
	require.Equal(t, "+OK", first.do("QUIT"))
	require.Eventually(t, func() bool { return s.Stats().Clients == 0 }, time.Minute, time.Millisecond)
	require.Equal(t, "+PONG", dial(t, "tcp", addr).do("PING"))
	require.EqualValues(t, 1, s.Stats().Rejected)
}

// OBJECT and MEMORY have a key only after some subcommands.
func TestContainersWithoutAKeyNeedNoGroup(t *testing.T) {
	_, addr, _ := twoNodes(t)
	p := dial(t, "tcp", addr)
	require.Contains(t, p.do("OBJECT HELP"), "+ENCODING <key>")
	require.Contains(t, p.do("MEMORY"), "-ERR wrong number of arguments for 'memory' command")
	require.Contains(t, p.do("OBJECT ENCODING"), "-ERR wrong number of arguments for 'object|encoding' command")
	require.Contains(t, p.do("OBJECT ENCODING foo"), "-MOVED 12182 ")
	require.Equal(t, "+OK", p.do("SET b 1"))
	require.Equal(t, "int", p.do("OBJECT ENCODING b"))
	require.Equal(t, ":18", p.do("MEMORY USAGE b SAMPLES 5"))
	require.Equal(t, "nil", p.do("MEMORY USAGE b{b}"))
	require.Equal(t, "+OK", p.do("MULTI"))
	require.Equal(t, "+QUEUED", p.do("OBJECT HELP"))
	require.Equal(t, "+QUEUED", p.do("OBJECT REFCOUNT b"))
	reply := p.do("EXEC")
	require.True(t, strings.HasPrefix(reply, "[[+OBJECT") && strings.HasSuffix(reply, "] :1]"), reply)
}

func TestInfoHasTheSectionsOfTheServerAndOfTheNode(t *testing.T) {
	bubble(t, func(t testing.TB) { // in which there is time to count the keys
		p := dial(t, "tcp", start(t, kvtest.New(4), Options{}))
		p.do("SET k 1")
		p.do("SET l 1 EX 1000")
		all := p.do("INFO")
		for _, part := range []string{
			"# Server\r\n", "redis_mode:cluster\r\n", "connected_clients:1\r\n", "blocked_clients:0\r\n", "raft_groups:4\r\n",
			"# Keyspace\r\ndb0:keys=2,expires=1,avg_ttl=0\r\n",
		} {
			require.Contains(t, all, part)
		}
		require.Equal(t, "# Raft\r\nraft_groups:4\r\n", p.do("INFO raft"))
		require.NotContains(t, p.do("INFO clients stats"), "raft_groups")
		require.Contains(t, p.do("CLIENT LIST"), "cmd=client")
		require.Contains(t, p.do("CLIENT INFO"), "cmd=client|info")
	})
}
