package server

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/kv/kvtest"
)

// FLUSHALL that has flushed some groups must not say that nothing was done.
func TestAFlushOfSomeGroupsSaysSo(t *testing.T) {
	n := kvtest.New(2)
	p := dial(t, "tcp", start(t, n, Options{}))
	for _, key := range []string{"a", "b", "c"} {
		require.Equal(t, "+OK", p.do("SET "+key+" 1"))
	}
	n.World().SetFaults(1, kvtest.Faults{Update: kv.ErrBusy})
	reply := p.do("FLUSHALL")
	require.Contains(t, reply, "-TRYAGAIN")
	require.Contains(t, reply, "other groups are flushed")
	require.NotContains(t, reply, "nothing was done")
	require.Equal(t, ":1", p.do("DBSIZE"))
	n.World().SetFaults(0, kvtest.Faults{Update: kv.ErrBusy})
	require.Contains(t, p.do("FLUSHALL"), "nothing was done")
}

// A client that watches for ever, and never executes anything, does not use ever more memory.
func TestWatchesAreBounded(t *testing.T) {
	p := dial(t, "tcp", start(t, kvtest.New(2), Options{MaxRequest: 4096}))
	watched := 0
	for p.do("WATCH a") == "+OK" {
		watched++
		require.Less(t, watched, 100)
	}
	require.Equal(t, "-ERR the watched keys exceed 4096 bytes", p.do("WATCH a"))
	require.Equal(t, "+OK", p.do("UNWATCH"))
	require.Equal(t, "+OK", p.do("WATCH a"))
}

// One value a million times among the sources of BITOP would have held its group for hours.
func TestBITOPReadsABoundedAmount(t *testing.T) {
	p := dial(t, "tcp", start(t, kvtest.New(1), Options{MaxRequest: 1 << 20, MaxValue: 1 << 20}))
	require.Equal(t, ":0", p.do("SETBIT k 7999999 1"))
	require.Equal(t, ":1000000", p.do("BITOP OR {k}1 k k k k"))
	require.Contains(t, p.do("BITOP OR {k}1 k k k k k"), "-ERR BITOP reads at most 4194304 bytes")
	require.Contains(t, p.do("BITOP OR {k}1"+strings.Repeat(" {k}absent", 1025)), "-ERR BITOP reads at most")
	require.Equal(t, ":1", p.do("BITCOUNT {k}1"))
}
