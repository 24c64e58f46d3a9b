package linearizability

import (
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

var (
	histories = flag.Int("lin.histories", 50, "histories of each kind, and a tenth as many with a power cut")
	clients   = flag.Int("lin.clients", 8, "clients in each history")
	ops       = flag.Int("lin.ops", 1000, "operations of each client")
	firstSeed = flag.Uint64("lin.seed", 0, "seed of the first history; the others count up; 0: choose one")
)

// patience bounds the search for an order. A history that takes longer is a failure: nothing was shown.
const patience = time.Minute

func TestHistoriesAreLinearizable(t *testing.T) {
	if testing.Short() {
		*histories = min(*histories, 3)
	}
	if *firstSeed == 0 {
		*firstSeed = rand.Uint64() >> 1
	}
	for _, c := range []struct {
		name         string
		width, count int
		cut, txns    bool
		wipes        bool
		leases       bool
	}{
		{"registers", 1, 30, false, false, false, false},
		{"batches and snapshots of four keys", 4, 8, false, false, false, false},
		{"registers and a power cut", 1, 30, true, false, false, false},
		{"batches and a power cut", 4, 8, true, false, false, false},
		{"transactions", 4, 4, false, true, false, false},
		{"transactions and a power cut", 4, 4, true, true, false, false},
		{"deleted ranges, loads and ingests", 4, 30, false, true, true, false},
		{"deleted ranges, loads, ingests and a power cut", 4, 30, true, true, true, false},
		{"leases that end with the clock", 4, 4, false, true, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Logf("seeds %d to %d", *firstSeed, *firstSeed+uint64(*histories)-1)
			operations, overlapping, flushes, compactions := 0, 0, 0, 0
			n, ops := *histories, *ops
			switch {
			case c.wipes:
				ops /= 2
			case c.txns:
				n, ops = 4*n, ops/5
			}
			if c.cut {
				n = (n + 9) / 10
			}
			for i := range n {
				w := Workload{Seed: *firstSeed + uint64(i), Clients: *clients, Ops: ops, Width: c.width, Count: c.count, Cut: c.cut, Transactions: c.txns, Wipes: c.wipes, Leases: c.leases}
				h, err := w.Run()
				require.NoError(t, err, "seed %d", w.Seed)
				check(t, w.Seed, h)
				operations += len(h.Operations)
				overlapping += h.Overlapping
				flushes += h.Flushes
				compactions += h.Compacted
			}
			t.Logf("%d histories, %d operations, %d overlapping others, %d flushes, %d compactions", n, operations, overlapping, flushes, compactions)
			require.Greater(t, overlapping, operations/20, "the clients hardly met")
			require.Greater(t, flushes, n, "nothing was flushed meanwhile")
			require.NotZero(t, compactions, "nothing was compacted meanwhile")
		})
	}
}

// check fails with a picture of the history where it has no order.
func check(t *testing.T, seed uint64, h *History) {
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(groups, h.Operations, patience)
	if result == porcupine.Ok {
		return
	}
	picture, err := os.CreateTemp("", "sievedb-history-*.html")
	require.NoError(t, err)
	require.NoError(t, picture.Close())
	require.NoError(t, porcupine.VisualizePath(groups, info, picture.Name()))
	require.Fail(t, "no order", "seed %d: %s; see %s", seed, result, picture.Name())
}

func TestTheModelTellsGoodFromBad(t *testing.T) {
	const never = math.MaxInt64
	op := func(call, end int64, write bool, mask uint8, v values) porcupine.Operation {
		o := porcupine.Operation{Input: input{mask: mask, write: write, values: v}, Call: call, Return: end, Output: v}
		return o
	}
	put := func(call, end int64, v int) porcupine.Operation { return op(call, end, true, 1, values{v}) }
	get := func(call, end int64, v int) porcupine.Operation { return op(call, end, false, 1, values{v}) }
	txn := func(call, end int64, was, v int) porcupine.Operation {
		return porcupine.Operation{Input: input{mask: 1, reads: 1, write: true, values: values{v}}, Call: call, Return: end, Output: values{was}}
	}
	// skew reads 7 for both keys and deletes one of them.
	skew := func(call, end int64, deleted, other int) porcupine.Operation {
		in := input{mask: 1 << deleted, reads: 1<<deleted | 1<<other, write: true}
		return porcupine.Operation{Input: in, Call: call, Return: end, Output: values{7, 7}}
	}
	for _, c := range []struct {
		name    string
		history []porcupine.Operation
		want    porcupine.CheckResult
	}{
		{"a read sees the write before it", []porcupine.Operation{put(1, 2, 7), get(3, 4, 7)}, porcupine.Ok},
		{"a read concurrent with a write sees either", []porcupine.Operation{put(1, 5, 7), get(2, 3, 0), get(4, 6, 7)}, porcupine.Ok},
		{"a stale read", []porcupine.Operation{put(1, 2, 7), get(3, 4, 0)}, porcupine.Illegal},
		{"a value goes back", []porcupine.Operation{put(1, 9, 7), get(2, 3, 7), get(4, 5, 0)}, porcupine.Illegal},
		{"a deleted key comes back", []porcupine.Operation{put(1, 2, 7), put(3, 4, 0), get(5, 6, 7)}, porcupine.Illegal},
		{"a write under way at a cut is lost", []porcupine.Operation{put(1, 2, 7), put(3, never, 8), get(5, 6, 7)}, porcupine.Ok},
		{"a write under way at a cut is there", []porcupine.Operation{put(1, 2, 7), put(3, never, 8), get(5, 6, 8)}, porcupine.Ok},
		{"a write that was read is lost", []porcupine.Operation{put(1, never, 8), get(2, 3, 8), get(5, 6, 0)}, porcupine.Illegal},
		{"a whole batch", []porcupine.Operation{op(1, 4, true, 3, values{7, 8}), op(2, 3, false, 3, values{7, 8})}, porcupine.Ok},
		{"half a batch", []porcupine.Operation{op(1, 4, true, 3, values{7, 8}), op(2, 3, false, 3, values{7, 0})}, porcupine.Illegal},
		{"a transaction that reads what was", []porcupine.Operation{put(1, 2, 7), txn(3, 4, 7, 8), get(5, 6, 8)}, porcupine.Ok},
		{"a lost update", []porcupine.Operation{put(1, 2, 7), txn(3, 6, 7, 8), txn(4, 5, 7, 9)}, porcupine.Illegal},
		{"two updates in a row", []porcupine.Operation{put(1, 2, 7), txn(3, 6, 7, 8), txn(4, 5, 8, 9)}, porcupine.Ok},
		{"write skew", []porcupine.Operation{op(1, 2, true, 3, values{7, 7}), skew(3, 6, 0, 1), skew(4, 5, 1, 0)}, porcupine.Illegal},
		{"a batch in two parts", []porcupine.Operation{op(1, 9, true, 3, values{7, 8}), op(2, 3, false, 1, values{7}),
			op(4, 5, false, 2, values{0, 0})}, porcupine.Illegal},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, porcupine.CheckOperationsTimeout(groups, c.history, patience))
		})
	}
}
