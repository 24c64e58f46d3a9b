package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
)

func TestFailuresGetTheErrorsThatClientsKnow(t *testing.T) {
	node := kvtest.New(1)
	p := dial(t, "tcp", start(t, node, Options{}))
	for _, c := range []struct {
		err         error
		read, write string
	}{
		{&kv.NotLeaderError{Leader: "127.0.0.2:7000"}, "-MOVED 7629 127.0.0.2:7000", "-MOVED 7629 127.0.0.2:7000"},
		{&kv.NotLeaderError{Leader: "[::1]:7000"}, "-MOVED 7629 ::1:7000", "-MOVED 7629 ::1:7000"},
		{&kv.NotLeaderError{Leader: node.Self().Addr}, "-TRYAGAIN ", "-TRYAGAIN "},
		{&kv.NotLeaderError{}, "-CLUSTERDOWN slot 7629 has no leader", "-CLUSTERDOWN slot 7629 has no leader"},
		{kv.ErrNoQuorum, "-CLUSTERDOWN too few replicas", "-CLUSTERDOWN too few replicas"},
		{fmt.Errorf("group 0: %w", kv.ErrUnknown), "-UNKNOWN ", "-UNKNOWN "},
		{kv.ErrBusy, "-TRYAGAIN too many writes", "-TRYAGAIN too many writes"},
		{kv.ErrNoSpace, "-MISCONF the disk", "-MISCONF the disk"},
		{kv.ErrClosed, "-CLUSTERDOWN this node is stopping", "-CLUSTERDOWN this node is stopping"},
		{context.DeadlineExceeded, "-CLUSTERDOWN the read was not confirmed", "-UNKNOWN "},
		{errors.New("a block is damaged"), "-ERR a block is damaged", "-ERR a block is damaged"},
	} {
		node.World().SetFaults(0, kvtest.Faults{Update: c.err, View: c.err, Watch: c.err})
		require.True(t, strings.HasPrefix(p.do("GET k"), c.read), "%v: %s", c.err, p.do("GET k"))
		require.True(t, strings.HasPrefix(p.do("WATCH k"), c.read), "%v", c.err)
		require.True(t, strings.HasPrefix(p.do("SET k v"), c.write), "%v: %s", c.err, p.do("SET k v"))
		require.Equal(t, "+OK", p.do("MULTI"))
		require.Equal(t, "+QUEUED", p.do("INCR k"))
		require.True(t, strings.HasPrefix(p.do("EXEC"), c.write), "%v", c.err)
	}
	node.World().SetFaults(0, kvtest.Faults{})
	require.Equal(t, "nil", p.do("GET k"))
}

func TestAWriteThatIsNotConfirmedInTimeIsUnknown(t *testing.T) {
	bubble(t, func(t testing.TB) {
		node := kvtest.New(1)
		addr := start(t, node, Options{WriteTimeout: shortTimeout})
		p := dial(t, "tcp", addr)
		node.World().Hold(0)
		p.send(encode("SET", "a", "1") + encode("INCR", "a") + encode("PING"))
		require.Contains(t, p.reply(), "-UNKNOWN ")
		require.Contains(t, p.reply(), "-UNKNOWN ")
		require.Equal(t, "+PONG", p.reply())
		node.World().Release(0)
		require.Equal(t, "2", p.do("GET a"), "it appears later")
	})
}

// Of a pipeline, only the replies of the writes that failed become errors.
func TestRepliesOfAPipelineStayInOrderIfWritesFail(t *testing.T) {
	w, addr, _ := twoNodes(t)
	p := dial(t, "tcp", addr)
	w.Hold(0)
	p.send(encode("PING") + encode("SET", "b", "1") + encode("ECHO", "x") + encode("INCR", "b") + encode("nothing") +
		encode("GET", "b"))
	require.Eventually(t, func() bool { return w.Waiting(0) == 2 }, time.Minute, time.Millisecond)
	w.Drop(0, &kv.NotLeaderError{Leader: "127.0.0.2:7000"})
	for _, want := range []string{
		"+PONG", "-MOVED 3300 127.0.0.2:7000", "x", "-MOVED 3300 127.0.0.2:7000",
		"-ERR unknown command 'nothing', with args beginning with: ", "nil",
	} {
		require.Equal(t, want, p.reply())
	}
}

func TestAReadSeesTheWritesBeforeItInThePipeline(t *testing.T) {
	node := kvtest.New(4)
	p := dial(t, "tcp", start(t, node, Options{}))
	var b strings.Builder
	for i := range 300 {
		b.WriteString(encode("INCR", "n") + encode("GET", "n") + encode("GET", fmt.Sprintf("absent%d", i)))
	}
	p.send(b.String())
	for i := range 300 {
		require.Equal(t, fmt.Sprintf(":%d", i+1), p.reply())
		require.Equal(t, fmt.Sprint(i+1), p.reply())
		require.Equal(t, "nil", p.reply())
	}
}

func TestKeysOfOtherNodesAreRedirected(t *testing.T) {
	w, addrA, addrB := twoNodes(t)
	a, b := dial(t, "tcp", addrA), dial(t, "tcp", addrB)
	require.Equal(t, "-MOVED 12182 "+addrB, a.do("SET foo bar"))
	require.Equal(t, "-MOVED 12182 "+addrB, a.do("GET foo"))
	require.Equal(t, "-MOVED 12182 "+addrB, a.do("WATCH foo"))
	require.Equal(t, "+OK", b.do("SET foo bar"))
	require.Equal(t, "-CROSSSLOT Keys in request don't hash to the same slot", b.do("MGET foo bar"))

	require.Equal(t, "+OK", a.do("MULTI"))
	require.Equal(t, "-MOVED 12182 "+addrB, a.do("INCR foo"))
	require.Equal(t, "-EXECABORT Transaction discarded because of previous errors.", a.do("EXEC"))

	w.SetLeader(1, "")
	require.Equal(t, "-CLUSTERDOWN slot 12182 has no leader now, retry later", a.do("GET foo"))
	require.Equal(t, "-CLUSTERDOWN slot 12182 has no leader now, retry later", b.do("SET foo bar"))
}

func TestReadonlyConnectionsReadFromReplicas(t *testing.T) {
	w, addrA, addrB := twoNodes(t)
	a, b := dial(t, "tcp", addrA), dial(t, "tcp", addrB)
	require.Equal(t, "+OK", b.do("SET foo bar"))
	require.Equal(t, "+OK", a.do("READONLY"))
	require.Equal(t, "bar", a.do("GET foo"))
	require.Equal(t, "-MOVED 12182 "+addrB, a.do("SET foo x"), "writes need the leader")
	require.Equal(t, "+OK", a.do("MULTI"))
	require.Equal(t, "+QUEUED", a.do("GET foo"))
	require.Equal(t, "[bar]", a.do("EXEC"))

	w.SetFaults(1, kvtest.Faults{StaleView: kv.ErrStale})
	require.Equal(t, "-MOVED 12182 "+addrB, a.do("GET foo"), "too stale, and the leader is known")
	w.SetLeader(1, "")
	require.Contains(t, a.do("GET foo"), "-CLUSTERDOWN this replica has not heard from a leader")
	w.SetFaults(1, kvtest.Faults{})
	require.Equal(t, "bar", a.do("GET foo"))
	require.Equal(t, "+OK", a.do("READWRITE"))
	require.Contains(t, a.do("GET foo"), "-CLUSTERDOWN ")
}

func TestOtherConnectionsContinueWhileOneWaits(t *testing.T) {
	node := kvtest.New(2)
	addr := start(t, node, Options{})
	waits, other := dial(t, "tcp", addr), dial(t, "tcp", addr)
	node.World().Hold(1)
	waits.send(encode("SET", "foo", "bar"))
	require.Eventually(t, func() bool { return node.World().Waiting(1) == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, "+OK", other.do("SET b 1"))
	require.Equal(t, "nil", other.do("GET foo"), "a write that waits is not committed")
	node.World().Release(1)
	require.Equal(t, "+OK", waits.reply())
}
