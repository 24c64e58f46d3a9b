package server

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
)

// depose waits for so many commands on their way. Then they fail with err.
func depose(t *testing.T, w *kvtest.World, waiting int, err error) {
	t.Helper()
	require.Eventually(t, func() bool { return w.Waiting(0) == waiting }, time.Minute, time.Millisecond)
	w.Drop(0, err)
}

// The leadership changed while the replies of commands were confirmed. Those that wrote nothing are evaluated again, in
// their order; the client notices nothing.
func TestCommandsThatWroteNothingAreEvaluatedAgain(t *testing.T) {
	for name, requests := range map[string]string{
		"SETNX":          encode("SETNX", "k", "v"),
		"a failed INCR":  encode("INCR", "k"),
		"DEL of nothing": encode("DEL", "absent"),
		"a transaction":  encode("MULTI") + encode("SETNX", "k", "v") + encode("STRLEN", "k") + encode("EXEC"),
		"several":        encode("SET", "absent", "v", "XX") + encode("SETNX", "k", "v") + encode("CAS", "k", "v", "w"),
	} {
		t.Run(name, func(t *testing.T) {
			node := kvtest.New(1)
			p := dial(t, "tcp", start(t, node, Options{}))
			require.Equal(t, "+OK", p.do("SET k text"))
			p.send(requests)
			var want []string
			for range strings.Count(requests, "*") {
				want = append(want, p.reply())
			}
			node.World().Hold(0)
			p.send(requests)
			inFlight := max(1, strings.Count(requests, "*"))
			if strings.Contains(requests, "MULTI") {
				inFlight = 1
			}
			depose(t, node.World(), inFlight, kv.ErrDeposed)
			for _, reply := range want {
				require.Equal(t, reply, p.reply())
			}
			require.Equal(t, "+PONG", p.do("PING"))
		})
	}
}

// A command that wrote nothing was followed by one that did. Evaluated again, it would see the write of the latter.
func TestACommandIsNotEvaluatedAfterThoseThatFollowIt(t *testing.T) {
	node := kvtest.New(2)
	addr := start(t, node, Options{})
	p := dial(t, "tcp", addr)
	w := node.World()
	require.Equal(t, "+OK", p.do("SET {b}k text")) // of group 0
	w.Hold(0)
	p.send(encode("SETNX", "{b}k", "v") + encode("SET", "{foo}k", "written"))
	depose(t, w, 1, kv.ErrDeposed)
	require.Contains(t, p.reply(), "-TRYAGAIN the leadership of the slot changed")
	require.Equal(t, "+OK", p.reply())
}

// That a watched key has changed is confirmed too: it says that another client has written.
func TestARefusalOfExecIsConfirmed(t *testing.T) {
	node := kvtest.New(1)
	addr := start(t, node, Options{})
	p, other := dial(t, "tcp", addr), dial(t, "tcp", addr)
	refused := func() {
		require.Equal(t, "+OK", p.do("WATCH k"))
		require.Equal(t, "+OK", other.do("SET k v"))
		require.Equal(t, "+OK", p.do("MULTI"))
		require.Equal(t, "+QUEUED", p.do("SET k w"))
	}
	refused()
	node.World().Hold(0)
	p.send(encode("EXEC"))
	depose(t, node.World(), 1, &kv.NotLeaderError{Leader: "127.0.0.2:7000"})
	require.Contains(t, p.reply(), "-MOVED 7629 127.0.0.2:7000")
	refused()
	node.World().Hold(0)
	p.send(encode("EXEC"))
	depose(t, node.World(), 1, kv.ErrDeposed)
	require.Equal(t, "nil", p.reply())
}

// The replies of commands without keys are given, so EXEC is not evaluated again. It must not be tried all the time.
func TestATransactionWithCommandsOfTheConnectionFailsAtOnce(t *testing.T) {
	node := kvtest.New(1)
	p := dial(t, "tcp", start(t, node, Options{WriteTimeout: time.Hour}))
	require.Equal(t, "+OK", p.do("SET k text"))
	node.World().Hold(0)
	p.send(encode("MULTI") + encode("SETNX", "k", "v") + encode("PING") + encode("EXEC"))
	depose(t, node.World(), 1, kv.ErrDeposed)
	for range 3 {
		require.NotContains(t, p.reply(), "-")
	}
	require.Contains(t, p.reply(), "-TRYAGAIN the leadership of the slot changed")
}
