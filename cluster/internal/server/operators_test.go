package server

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
)

func TestTheSlowLogHasTheNewestSlowCommands(t *testing.T) {
	p := dial(t, "tcp", start(t, kvtest.New(1), Options{Password: "secret"}))
	p.do("AUTH secret")
	require.Equal(t, ":0", p.do("SLOWLOG LEN"))
	require.Equal(t, "+OK", p.do("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 3"))
	p.do("CLIENT SETNAME me")
	p.do("SET k v")
	p.do("GET k")
	require.Equal(t, "+OK", p.do("CONFIG SET slowlog-log-slower-than -1"))
	list := p.do("SLOWLOG GET")
	require.Regexp(t, `^\[\[:\d+ :\d+ :\d+ \[GET k\] 127\.0\.0\.1:\d+ me\] \[.*\[SET k v\].*\[CLIENT SETNAME me\]`,
		list)
	require.Equal(t, list, p.do("SLOWLOG GET -1"))
	require.NotContains(t, p.do("SLOWLOG GET 1"), "SET k v")
	require.Equal(t, ":3", p.do("SLOWLOG LEN"))
	require.Equal(t, "+OK", p.do("CONFIG SET slowlog-max-len 1"))
	require.Equal(t, ":1", p.do("SLOWLOG LEN"))
	require.Equal(t, "+OK", p.do("SLOWLOG RESET"))
	require.Equal(t, "[]", p.do("SLOWLOG GET"))
	for _, line := range []string{"SLOWLOG GET -2", "SLOWLOG GET x", "SLOWLOG GET 1 2", "SLOWLOG bad",
		"SLOWLOG LEN 1"} {
		require.True(t, strings.HasPrefix(p.do(line), "-ERR"), line)
	}
	require.Contains(t, p.do("SLOWLOG HELP"), "GET [<count>]")
}

// Passwords do not appear, and long requests only with their beginning.
func TestTheSlowLogIsDiscreet(t *testing.T) {
	p := dial(t, "tcp", start(t, kvtest.New(1), Options{Password: "secret"}))
	p.do("AUTH secret")
	p.do("CONFIG SET slowlog-log-slower-than 0")
	p.do("AUTH default secret")
	p.do("HELLO 2 AUTH default secret")
	p.do("DEL" + strings.Repeat(" k", 40))
	p.do("SET k " + strings.Repeat("v", 200))
	list := p.do("SLOWLOG GET")
	require.NotContains(t, list, "secret")
	require.Contains(t, list, "[AUTH (redacted) (redacted)]")
	require.Contains(t, list, "[HELLO 2 (redacted) (redacted) (redacted)]")
	require.Contains(t, list, strings.Repeat(" k", 30)+" ... (10 more arguments)]")
	require.Contains(t, list, strings.Repeat("v", 128)+"... (72 more bytes)]")
}

// The time of a write is that until its commit.
func TestTheTimeOfAWriteIncludesItsReplication(t *testing.T) {
	node := kvtest.New(1)
	s, addr := startServer(t, node, Options{})
	p := dial(t, "tcp", addr)
	require.Equal(t, "+OK", p.do("CONFIG SET slowlog-log-slower-than 20000 latency-monitor-threshold 20"))
	node.World().Hold(0)
	p.send(encode("SET", "k", "v") + encode("MULTI") + encode("INCR", "n") + encode("EXEC"))
	require.Eventually(t, func() bool { return s.Stats().Commands == 5 }, time.Minute, time.Millisecond)
	begun := s.elapsed()
	require.Eventually(t, func() bool { return s.elapsed() > begun+25*time.Millisecond }, time.Minute, time.Millisecond)
	node.World().Release(0)
	for range 4 {
		p.reply()
	}
	require.Contains(t, p.do("SLOWLOG GET"), "[SET k v]")
	require.Contains(t, p.do("SLOWLOG GET"), "[EXEC]")
	require.Regexp(t, `^\[\[command :\d+ :\d+ :\d+\]`, p.do("LATENCY LATEST"))
	require.Contains(t, p.do("LATENCY DOCTOR"), "command: the longest took")
	require.Contains(t, p.do("LATENCY HISTORY command"), "[[:")
	require.Equal(t, "[]", p.do("LATENCY HISTORY other"))
	require.NotEqual(t, ":0", p.do("LATENCY RESET"))
	require.Equal(t, "[]", p.do("LATENCY LATEST"))
	require.Contains(t, p.do("LATENCY DOCTOR"), "No command took 20 ms")
}

func TestCommandsAreCountedByNameAndSubcommand(t *testing.T) {
	s, addr := startServer(t, kvtest.New(1), Options{})
	p := dial(t, "tcp", addr)
	for _, line := range []string{"SET a 1", "SET b 1", "GET a", "GET", "nothing", "CLIENT ID", "CLIENT bad",
		"OBJECT ENCODING a"} {
		p.do(line)
	}
	require.Regexp(t, `^\[get \[calls :1 histogram_usec \[:\d+ :1\]\]\]$`, p.do("LATENCY HISTOGRAM GET nothing"))
	require.Regexp(t, `^\[set \[calls :2 `, p.do("LATENCY HISTOGRAM set"))
	require.Contains(t, p.do("LATENCY HISTOGRAM client"), "client|id")
	require.Contains(t, p.do("LATENCY HISTOGRAM"), "object|encoding")
	require.Regexp(t, `cmdstat_set:calls=2,usec=\d+,usec_per_call=\d+\.\d\d\r\n`, p.do("INFO commandstats"))
	require.NotContains(t, p.do("INFO"), "cmdstat")
	require.Contains(t, p.do("INFO all"), "cmdstat_client|id:calls=1")
	before := s.Stats().Commands
	require.Equal(t, "+OK", p.do("CONFIG RESETSTAT"))
	require.Regexp(t, `^\[config\|resetstat \[calls :1 histogram_usec [^a-z]*$`, p.do("LATENCY HISTOGRAM"))
	require.Contains(t, p.do("INFO stats"), "total_commands_processed:2\r\n")
	require.Greater(t, s.Stats().Commands, before, "figures for Prometheus go on")
}

func TestSettingsChangeTogetherOrNotAtAll(t *testing.T) {
	s, addr := startServer(t, kvtest.New(1), Options{MaxClients: 100})
	p := dial(t, "tcp", addr)
	require.Equal(t, "+OK",
		p.do("CONFIG SET timeout 300 maxclients 2 Latency-Monitor-Threshold 7 maxmemory-clients 2000000"))
	for name, want := range map[string]string{
		"timeout": "300", "maxclients": "2", "latency-monitor-threshold": "7", "maxmemory-clients": "2000000",
		"slowlog-max-len": "128", "slowlog-log-slower-than": "10000", "appendonly": "yes",
	} {
		require.Equal(t, "["+name+" "+want+"]", p.do("CONFIG GET "+name))
	}
	for line, want := range map[string]string{
		"timeout 1 bad 2":              "-ERR Unknown option or number of arguments for CONFIG SET - 'bad'",
		"timeout 1 maxclients":         "-ERR syntax error",
		"timeout 1 save x":             "can't set immutable config",
		"timeout 1 timeout 2":          "duplicate parameter",
		"timeout 1 maxclients 101":     "argument must be between 1 and 100 inclusive",
		"timeout 1 maxclients x":       "argument couldn't be parsed into an integer",
		"timeout 1 slowlog-max-len -1": "must be between 0",
	} {
		require.Contains(t, p.do("CONFIG SET "+line), want)
		require.Equal(t, "[timeout 300]", p.do("CONFIG GET timeout"), line)
	}
	require.EqualValues(t, 2_000_000, s.Stats().ClientBytesLimit)
	require.Equal(t, "+PONG", dial(t, "tcp", addr).do("PING"))
	require.Equal(t, "-"+tooManyClients, dial(t, "tcp", addr).reply())
}

func TestClientsAreClosedByEachFilter(t *testing.T) {
	s, addr := startServer(t, kvtest.New(1), Options{})
	p := dial(t, "tcp", addr)
	p.do("PING")
	victim := func() (*peer, string, string) {
		v := dial(t, "tcp", addr)
		id := strings.TrimPrefix(v.do("CLIENT ID"), ":")
		return v, id, v.nc.LocalAddr().String()
	}
	for _, filter := range []string{"$at", "ADDR $at", "ID $id", "ID $id TYPE normal USER default SKIPME no",
		"LADDR " + addr} {
		v, id, at := victim()
		reply := p.do("CLIENT KILL " + strings.NewReplacer("$id", id, "$at", at).Replace(filter))
		require.Contains(t, []string{"+OK", ":1"}, reply, filter)
		require.True(t, v.closed())
		require.Equal(t, 1, s.Stats().Clients, "it is gone at once")
	}
	v, id, at := victim()
	for line, want := range map[string]string{
		"127.0.0.1:1":            "-ERR No such client",
		"ID " + id + " ADDR x":   ":0",
		"TYPE pubsub":            ":0",
		"MAXAGE 1000":            ":0",
		"ADDR " + at + " SKIPME": "-ERR syntax error",
		"ID 0":                   "-ERR client-id should be greater than 0",
		"TYPE bad":               "-ERR Unknown client type 'bad'",
		"USER bad":               "-ERR No such user 'bad'",
		"SKIPME perhaps":         "-ERR syntax error",
		"bad 1":                  "-ERR syntax error",
	} {
		require.Equal(t, want, p.do("CLIENT KILL "+line), line)
	}
	require.Equal(t, "+PONG", v.do("PING"))
	require.Equal(t, ":2", p.do("CLIENT KILL SKIPME no"))
	require.True(t, p.closed() && v.closed())
}

func TestClientListShowsWhatAClientDoes(t *testing.T) {
	addr := start(t, kvtest.New(1), Options{})
	p, other := dial(t, "tcp", addr), dial(t, "tcp", addr)
	id := strings.TrimPrefix(other.do("CLIENT ID"), ":")
	require.Contains(t, other.do("HELLO 3"), "proto :3")
	other.do("READONLY")
	other.do("MULTI")
	other.do("GET k")
	line := p.do("CLIENT LIST TYPE normal ID " + id)
	require.Regexp(t,
		regexp.MustCompile(`^id=`+id+` addr=\S+ laddr=`+addr+` fd=0 name= age=\d+ idle=\d+ flags=xr db=0 sub=0 psub=0 ssub=0 `+
			`multi=0 qbuf=20 qbuf-free=\d+ argv-mem=20 multi-mem=\d+ rbs=\d+ rbp=0 obl=0 oll=0 omem=0 tot-mem=\d+ events=r cmd=get user=default `+
			`redir=-1 resp=3 lib-name= lib-ver=\n$`), line)
	require.Empty(t, p.do("CLIENT LIST TYPE pubsub"))
	require.Contains(t, p.do("CLIENT LIST TYPE bad"), "-ERR Unknown client type 'bad'")
	require.Contains(t, p.do("CLIENT INFO"), "cmd=client|info")
}

func TestRepliesCanBeTurnedOff(t *testing.T) {
	p := dial(t, "tcp", start(t, kvtest.New(1), Options{}))
	p.send(encode("SET", "k", "1") + encode("CLIENT", "REPLY", "OFF") + encode("INCR", "k") + encode("GET", "k") +
		encode("bad") +
		encode("CLIENT", "REPLY", "ON") + encode("GET", "k"))
	require.Equal(t, []string{"+OK", "+OK", "2"}, []string{p.reply(), p.reply(), p.reply()})
	p.send(encode("GET", "k") + encode("CLIENT", "REPLY", "SKIP") + encode("INCR", "k") + encode("GET", "k"))
	require.Equal(t, []string{"2", "3"}, []string{p.reply(), p.reply()})
	p.send(encode("CLIENT", "REPLY", "SKIP") + encode("CLIENT", "REPLY", "ON") + encode("PING"))
	require.Equal(t, []string{"+OK", "+PONG"}, []string{p.reply(), p.reply()})
	p.send(encode("CLIENT", "REPLY", "SKIP") + encode("GET", "k") + encode("PING"))
	require.Equal(t, "+PONG", p.reply())
	require.Contains(t, p.do("CLIENT REPLY perhaps"), "-ERR")
}

// Clients that are idle already are those for which one sets a timeout.
func TestTheTimeoutCountsForThoseThatAreIdle(t *testing.T) {
	bubble(t, func(t testing.TB) {
		addr := start(t, kvtest.New(1), Options{})
		idle, fresh, p := dial(t, "tcp", addr), dial(t, "tcp", addr), dial(t, "tcp", addr)
		require.Equal(t, "+PONG", idle.do("PING"))
		idle.send("*1")
		require.Equal(t, "+OK", p.do("CONFIG SET timeout 100"))
		idle.send("\r\n$4\r\nPING\r\n")
		require.Equal(t, "+PONG", idle.reply())
		require.Equal(t, "+OK", p.do("CONFIG SET timeout 1"))
		require.True(t, idle.closed())
		require.True(t, fresh.closed())
	})
}
