package command

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
)

// evaluate evaluates a line, or returns why it is refused, and how many writes it has proposed.
func evaluate(t *testing.T, n *kvtest.Node, resp3 bool, args ...string) string {
	t.Helper()
	reply := &Reply{RESP3: resp3}
	call := &Call{Reply: reply, Limits: Limits{MaxValue: 4 << 20, MaxReply: 4 << 20, OnceFor: time.Minute}}
	for _, arg := range args {
		call.Args = append(call.Args, []byte(arg))
	}
	c, ok := Lookup(call.Args[0])
	require.True(t, ok)
	if text := c.Refuses(call.Args); text != "" {
		return "-" + text
	}
	of, found, err := c.Slot(call.Args)
	require.NoError(t, err)
	require.True(t, found)
	g, _ := n.Group(of)
	if _, err := g.Update(t.Context(), func(tx kv.Tx) error { return c.Evaluate(call, tx) }); err != nil {
		return "-" + err.Error()
	}
	return string(reply.Bytes)
}

// A step is a line, and its reply in RESP2.
func runSteps(t *testing.T, n *kvtest.Node, steps ...string) {
	t.Helper()
	for i := 0; i < len(steps); i += 2 {
		got := strings.TrimSuffix(evaluate(t, n, false, strings.Fields(steps[i])...), "\r\n")
		require.Equal(t, steps[i+1], got, "step %d: %s", i/2, steps[i])
	}
}

func TestARequestWithAnIDIsEvaluatedOnce(t *testing.T) {
	n := kvtest.New(4)
	runSteps(t, n,
		"once 1 incr n", ":1", "once 1 incr n", ":1", "ONCE 1 INCR n", ":1", "once 2 incr n", ":2", "get n", "$1\r\n2",
		"once 1 incr n", ":1", "once 1 decr n", "-"+errOnceOther, "once 1 incrby n 1", "-"+errOnceOther, "get n", "$1\r\n2",
		// Each slot has its IDs.
		"once 1 incr other", ":1", "once 1 incr {n}other", "-"+errOnceOther,
		// Arguments are compared as they were divided.
		"once 3 append k ab", ":2", "once 3 append k a", "-"+errOnceOther, "once 3 append k ab", ":2",
		"once 4 mset {k}1 a {k}2 b", "+OK", "set {k}1 c", "+OK", "once 4 mset {k}1 a {k}2 b", "+OK", "get {k}1", "$1\r\nc",
		// What was evaluated and wrote nothing is not evaluated again either: the first request may be the late one.
		"once 5 set absent v XX", "$-1", "set absent v", "+OK", "once 5 set absent v XX", "$-1",
		"set text v", "+OK", "once 6 incr text", "-"+errInteger, "del text", ":1", "once 6 incr text", "-"+errInteger,
		"once 7 getdel absent", "$1\r\nv", "once 7 getdel absent", "$1\r\nv", "get absent", "$-1",
	)
}

func TestTheReplyOfOnceIsInTheProtocolOfTheRepetition(t *testing.T) {
	n := kvtest.New(1)
	for _, first := range []bool{false, true} {
		id := map[bool]string{false: "2", true: "3"}[first]
		evaluate(t, n, first, "once", id, "getset", "k"+id, "_\r\n$1")
		require.Equal(t, "_\r\n", evaluate(t, n, true, "once", id, "getset", "k"+id, "_\r\n$1"))
		require.Equal(t, "$-1\r\n", evaluate(t, n, false, "once", id, "getset", "k"+id, "_\r\n$1"))
	}
	require.Equal(t, "$5\r\n_\r\n$1\r\n", evaluate(t, n, false, "once", "4", "getdel", "k2"))
	require.Equal(t, "$5\r\n_\r\n$1\r\n", evaluate(t, n, true, "once", "4", "getdel", "k2"))
	p := &Reply{}
	p.translate([]byte("*4\r\n:1\r\n_\r\n$2\r\n_\r\r\n+OK\r\n"))
	require.Equal(t, "*4\r\n:1\r\n$-1\r\n$2\r\n_\r\r\n+OK\r\n", string(p.Bytes))
}

func TestOnceForgetsAfterItsTime(t *testing.T) {
	n := kvtest.New(1)
	runSteps(t, n, "once 1 incr n", ":1")
	n.World().Advance(time.Minute - time.Millisecond)
	runSteps(t, n, "once 1 incr n", ":1")
	n.World().Advance(time.Millisecond)
	runSteps(t, n, "once 1 incr n", ":2", "once 1 incr n", ":2")
	g, _ := n.Group(0)
	_, err := g.Update(t.Context(), func(tx kv.Tx) error { tx.DeleteAll(); return nil })
	require.NoError(t, err)
	runSteps(t, n, "once 1 incr n", ":2", "get n", "$-1")
}

func TestOnceIsForCommandsThatWriteKeys(t *testing.T) {
	n := kvtest.New(1)
	for line, want := range map[string]string{
		"once 1 get k":      "-ERR ONCE is for commands that write keys; 'get' is none",
		"once 1 nothing":    "-ERR ONCE is for commands that write keys; 'nothing' is none",
		"once 1 flushall":   "-ERR ONCE is for commands that write keys; 'flushall' is none",
		"once 1 exec":       "-ERR ONCE is for commands that write keys; 'exec' is none",
		"once 1 once 2 get": "-ERR ONCE is for commands that write keys; 'once' is none",
		"once 1":            "-ERR wrong number of arguments for 'once' command",
		"once 1 incr":       "-ERR wrong number of arguments for 'incr' command",
		"once " + strings.Repeat("x", 129) + " incr n": "-ERR the ID of ONCE has 129 bytes, and 1 to 128 are possible",
	} {
		require.Equal(t, want, evaluate(t, n, false, strings.Fields(line)...))
	}
	require.Contains(t, evaluate(t, n, false, "once", "", "incr", "n"), "-ERR the ID of ONCE has 0 bytes")
	runSteps(t, n, "once "+strings.Repeat("x", 128)+" incr n", ":1")
}

func TestAReplyThatIsTooLongForOnceIsNotGiven(t *testing.T) {
	n := kvtest.New(1)
	long := strings.Repeat("v", maxOnceReply)
	require.Equal(t, "+OK\r\n", evaluate(t, n, false, "set", "k", long))
	require.Equal(t, "-"+errOnceReply.Error(), evaluate(t, n, false, "once", "1", "getdel", "k"))
	require.Contains(t, evaluate(t, n, false, "strlen", "k"), ":1048576")
	require.Equal(t, "+OK\r\n", evaluate(t, n, false, "once", "1", "set", "k", "short"))
}

// Clients of clusters ask where the keys are.
func TestTheKeysOfOnceAreThoseOfItsCommand(t *testing.T) {
	for line, want := range map[string]string{
		"command getkeys once 1 incr n":             "*1\r\n$1\r\nn\r\n",
		"command getkeys once 1 mset {a}1 v {a}2 v": "*2\r\n$4\r\n{a}1\r\n$4\r\n{a}2\r\n",
		"command getkeys once 1 get k":              "-ERR Invalid number of arguments specified for command\r\n",
	} {
		c := &Call{Args: arguments(line), Reply: &Reply{}}
		Describe(c)
		require.Equal(t, want, string(c.Reply.Bytes), line)
	}
	cmd, _ := Lookup([]byte("once"))
	require.Equal(t, 3, cmd.First)
	require.Contains(t, cmd.Flags, "movablekeys")
	_, _, err := cmd.Slot(arguments("once 1 mset a v b v"))
	require.ErrorIs(t, err, ErrCrossSlot)
}

func FuzzTranslate(f *testing.F) {
	for _, seed := range []string{
		"+OK\r\n", "$3\r\nabc\r\n", "_\r\n", "*2\r\n_\r\n:1\r\n", "$-1\r\n", "$999999999999999999999\r\n", "$9\r\na", "\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		same := Reply{RESP3: true}
		same.translate(b)
		if !strings.Contains(string(b), "_") {
			require.Equal(t, string(b), string(same.Bytes))
		}
		older := Reply{}
		older.translate(b)
		require.GreaterOrEqual(t, len(older.Bytes)+3, len(same.Bytes)/3)
	})
}
