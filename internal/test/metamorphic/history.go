package metamorphic

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/sievedb/sievedb/internal/base"
)

// slots is how many snapshots, and how many iterators, may be open at a time.
const slots = 3

// History is the operations that a seed stands for, and the order of its keys.
type History struct {
	Seed     uint64
	Comparer *base.Comparer
	// Expiring are prefixes of keys whose values may expire, in all runs of the history.
	Expiring [][]byte
	Ops      []Op
}

// reversed is a second order of keys, which no shortcut for bytes fits.
var reversed = &base.Comparer{
	Name:    "sievedb.test.reversed",
	Compare: func(a, b []byte) int { return bytes.Compare(b, a) },
}

// NewHistory returns the history of a seed: about n operations, and an end that reads everything again.
func NewHistory(seed uint64, n int) *History {
	g := &generator{rnd: rand.New(rand.NewPCG(seed, 'h')), h: &History{Seed: seed, Comparer: base.Bytewise}}
	if g.rnd.IntN(4) == 0 {
		g.h.Comparer = reversed
	}
	if seed%2 == 0 {
		g.h.Expiring = [][]byte{[]byte("k1"), []byte("prefix/"), {1}, []byte("aa")}
	}
	g.keys = []int{12, 150, 600, 3000}[g.rnd.IntN(4)]
	g.shape = g.rnd.IntN(3)
	for len(g.h.Ops) < n {
		g.step()
	}
	g.end()
	return g.h
}

// generator knows only the state of the database that determines the next operations: which slots
// are in use and whether it may be written to.
type generator struct {
	rnd       *rand.Rand
	h         *History
	keys      int // about how many different ones
	shape     int // what most of them look like
	values    int
	ingests   int
	snapshots [slots + 1]bool // the last is the transaction
	overtaken bool            // other bulk changes were made since it began
	iterators [slots]bool
	loading   bool
	readOnly  bool
}

func (g *generator) add(o Op) {
	switch o.Kind {
	case CommitLoad, Ingest, DeleteRange, Contend:
		g.overtaken = true
	case NewTxn:
		g.overtaken = false
	}
	g.h.Ops = append(g.h.Ops, o)
}

// write draws how durable a writing operation is.
func (g *generator) write(o Op) {
	n := g.rnd.IntN(20)
	o.Sync, o.Buffered = n == 0, n%2 == 1
	g.add(o)
}

func (g *generator) step() {
	if g.readOnly && g.rnd.IntN(30) == 0 {
		g.reopen(Reopen)
		return
	}
	if g.h.Expiring != nil && g.rnd.IntN(20) == 0 {
		g.add(Op{Kind: Tick, Of: g.rnd.IntN(100), Count: g.rnd.IntN(8) / 7 * g.rnd.IntN(1000)})
		return
	}
	switch op := g.rnd.IntN(1000); {
	case op < 300:
		o := Op{Kind: Put, Key: g.key(), Value: g.value()}
		o.TTL = g.ttl(o.Key)
		g.write(o)
	case op < 400:
		g.write(Op{Kind: Delete, Key: g.key()})
	case op < 480:
		g.write(Op{Kind: Apply, Batch: g.mixedBatch()})
	case op < 520:
		g.add(Op{Kind: MultiGet, Keys: g.someKeys(), Slot: g.snapshotOrNone()})
	case op < 530:
		g.ingest()
	case op == 532:
		g.contend()
	case op < 533:
		from, to := g.bounds(true)
		g.write(Op{Kind: DeleteRange, Key: from, Limit: to})
	case op < 750:
		g.add(Op{Kind: Get, Key: g.key(), Slot: g.snapshotOrNone(), NoFill: g.rnd.IntN(4) == 0})
	case op < 770:
		g.swap()
	case op < 780:
		g.add(Op{Kind: GetTTL, Key: g.key(), Slot: g.notInTxn(g.snapshotOrNone())})
	case op == 789:
		g.sweep()
	case op < 790:
		g.add(Op{Kind: Has, Key: g.key(), Slot: g.snapshotOrNone()})
	case op < 810:
		g.transact()
	case op < 840:
		g.snapshot(g.rnd.IntN(slots))
	case op < 940:
		g.iterator(g.rnd.IntN(slots))
	case op < 965 && !g.readOnly:
		g.add(Op{Kind: Flush})
	case op < 972 && !g.readOnly:
		from, to := g.bounds(true)
		g.add(Op{Kind: Compact, Key: from, Limit: to})
	case op < 974 && !g.readOnly:
		g.add(Op{Kind: Upgrade, Of: g.rnd.IntN(len(upgrades))})
	case op < 977 && !g.readOnly:
		g.reopen([]Kind{Reopen, Reopen, OpenReadOnly}[g.rnd.IntN(3)])
	case op < 979 && !g.readOnly:
		g.crash()
	case op == 979:
		g.add(Op{Kind: Tune, Of: 1 + g.rnd.IntN(100)})
	case op >= 980:
		g.load()
	}
}

// load begins a load or ends the one that is under way.
func (g *generator) load() {
	switch {
	case !g.loading:
		g.add(Op{Kind: NewLoad, Batch: g.sortedBatch()})
		g.loading = !g.readOnly
	case g.rnd.IntN(5) > 0:
		g.add(Op{Kind: CommitLoad})
		g.loading = false
	default:
		g.endLoad()
	}
}

func (g *generator) endLoad() {
	if g.loading {
		g.add(Op{Kind: DropLoad})
	}
	g.loading = false
}

// ingest makes tables whose sequence numbers are old, or above all others so far.
func (g *generator) ingest() {
	if slices.Contains(g.snapshots[:], true) && g.rnd.IntN(8) > 0 {
		return // it would wait for the snapshot, which takes time in each run
	}
	g.ingests++
	o := Op{Kind: Ingest, Batch: g.sortedBatch(), Count: 1 + g.rnd.IntN(3), Same: g.rnd.IntN(3) == 0, NoFill: g.rnd.IntN(4) == 0}
	if g.rnd.IntN(2) == 0 {
		o.Of = g.ingests
	}
	g.add(o)
}

// contend is often about a key that the change is not about. A deletion of a range, and the ingest of a table with old
// numbers, wait some time for the transaction.
func (g *generator) contend() {
	o := Op{Kind: Contend, Keys: [][]byte{g.key()}, Value: g.value()}
	o.Key, o.Limit = g.bounds(true)
	if g.rnd.IntN(2) == 0 {
		g.ingests++
		o.Batch, o.Of = g.sortedBatch(), g.ingests*g.rnd.IntN(2)
	}
	g.write(o)
}

// sortedBatch is empty now and then. Some are larger than a table.
func (g *generator) sortedBatch() []Write {
	writes := g.someWrites()
	compare := g.h.Comparer.Compare
	slices.SortFunc(writes, func(a, b Write) int { return compare(a.Key, b.Key) })
	return slices.CompactFunc(writes, func(a, b Write) bool { return compare(a.Key, b.Key) == 0 })
}

func (g *generator) someWrites() []Write {
	writes := []Write{}
	for n := g.rnd.IntN([]int{20, 20, 400}[g.rnd.IntN(3)]); n > 0; n -= 12 {
		writes = append(writes, g.batch()...)
	}
	return writes
}

// transact begins a transaction, writes in it or ends it. Values that expire have their time from Commit on, or from
// Put on, so it has none.
func (g *generator) transact() {
	switch {
	case g.readOnly:
	case !g.snapshots[inTxn]:
		g.write(Op{Kind: NewTxn, Same: g.rnd.IntN(2) == 0})
		g.snapshots[inTxn] = true
	case g.rnd.IntN(3) > 0:
		writes := g.someWrites()
		for i := range writes {
			writes[i].TTL = 0
		}
		g.add(Op{Kind: WriteTxn, Batch: writes})
	case g.rnd.IntN(4) > 0:
		g.add(Op{Kind: CommitTxn})
		g.snapshots[inTxn] = false
	default:
		g.dropTxn()
	}
}

func (g *generator) dropTxn() {
	if g.snapshots[inTxn] {
		g.add(Op{Kind: DropTxn})
	}
	g.snapshots[inTxn] = false
}

// sweep is with iterators, but without snapshots and transactions, which keep the filter from some values.
func (g *generator) sweep() {
	if !g.readOnly {
		g.dropTxn()
		g.closeSnapshots()
		g.add(Op{Kind: Sweep})
	}
}

// mixedBatch has deletions of ranges as well, now and then.
func (g *generator) mixedBatch() []Write {
	writes := g.batch()
	if g.rnd.IntN(20) == 0 {
		w := Write{Range: true, Key: g.key(), Limit: g.key()}
		if g.h.Comparer.Compare(w.Key, w.Limit) > 0 {
			w.Key, w.Limit = w.Limit, w.Key
		}
		writes = slices.Insert(writes, g.rnd.IntN(len(writes)+1), w)
	}
	return writes
}

func (g *generator) batch() []Write {
	writes := make([]Write, 1+g.rnd.IntN(12))
	for i := range writes {
		writes[i] = Write{Key: g.key(), Delete: g.rnd.IntN(4) == 0}
		if !writes[i].Delete {
			writes[i].Value, writes[i].TTL = g.value(), g.ttl(writes[i].Key)
		}
	}
	return writes
}

// ttl is 0 for half of the keys whose values may expire, and for all others.
func (g *generator) ttl(key []byte) int {
	for _, prefix := range g.h.Expiring {
		if bytes.HasPrefix(key, prefix) && g.rnd.IntN(2) == 0 {
			return 1 + g.rnd.IntN(2000)
		}
	}
	return 0
}

// swap is about a key that has a value, or has none, or whose value has expired. Often it has just got one that
// expires.
func (g *generator) swap() {
	o := Op{Kind: Swap, Key: g.key(), Of: g.rnd.IntN(len(swapNames))}
	for range 5 {
		if before := g.ttl(o.Key); before > 0 {
			g.write(Op{Kind: Put, Key: o.Key, Value: g.value(), TTL: before})
			break
		}
		o.Key = g.key()
	}
	if g.rnd.IntN(8) > 0 {
		o.Value, o.TTL = g.value(), g.ttl(o.Key)
	}
	g.write(o)
	g.add(Op{Kind: GetTTL, Key: o.Key, Slot: -1})
}

// someKeys may hold one more than once.
func (g *generator) someKeys() [][]byte {
	keys := make([][]byte, g.rnd.IntN(50))
	for i := range keys {
		keys[i] = g.key()
	}
	return keys
}

// snapshotOrNone is mostly -1, the database itself.
func (g *generator) snapshotOrNone() int {
	if s := g.rnd.IntN(len(g.snapshots)); g.snapshots[s] && g.rnd.IntN(2) == 0 {
		return s
	}
	return -1
}

// notInTxn is the database in place of the transaction.
func (g *generator) notInTxn(slot int) int {
	if slot == inTxn {
		return -1
	}
	return slot
}

func (g *generator) snapshot(slot int) {
	if g.snapshots[slot] {
		g.add(Op{Kind: CloseSnapshot, Slot: slot})
	} else {
		g.add(Op{Kind: NewSnapshot, Slot: slot})
	}
	g.snapshots[slot] = !g.snapshots[slot]
}

func (g *generator) iterator(slot int) {
	if !g.iterators[slot] {
		g.add(g.newIterator(slot))
		g.iterators[slot] = true
	}
	g.add(Op{Kind: Move, Slot: slot, Moves: g.moves()})
	if g.rnd.IntN(4) == 0 {
		g.add(Op{Kind: CloseIterator, Slot: slot})
		g.iterators[slot] = false
	}
}

// newIterator makes an iterator for a slot, often by cloning another one. Some are loops, which need
// no slot, before it.
func (g *generator) newIterator(slot int) Op {
	from, to := g.bounds(false)
	o := Op{Kind: NewIterator, Slot: slot, Of: g.snapshotOrNone(), Key: from, Limit: to, NoFill: g.rnd.IntN(2) == 0, KeysOnly: g.rnd.IntN(4) == 0}
	if o.Of == inTxn && g.overtaken {
		o.Of = -1 // a bulk transaction that was overtaken has no iterators
	}
	if g.rnd.IntN(3) == 0 {
		loop := o
		loop.Kind, loop.Count = Loop, 1+g.rnd.IntN(40)
		g.add(loop)
	}
	if other := g.rnd.IntN(slots); g.iterators[other] {
		o.Kind, o.Of, o.Same = CloneIterator, other, g.rnd.IntN(2) == 0
	}
	return o
}

func (g *generator) moves() []Step {
	steps := make([]Step, 1+g.rnd.IntN(12))
	for i := range steps {
		switch op := g.rnd.IntN(100); {
		case op < 8:
			steps[i].Move = "first"
		case op < 16:
			steps[i].Move = "last"
		case op < 32:
			steps[i] = Step{Move: "seekge", Key: g.key()}
		case op < 48:
			steps[i] = Step{Move: "seeklt", Key: g.key()}
		case op < 54:
			steps[i].Move = "setbounds"
			steps[i].Key, steps[i].Limit = g.bounds(false)
		case op < 56:
			steps[i].Move = "refresh"
		case op < 76:
			steps[i].Move = "next"
		case op < 97:
			steps[i].Move = "prev"
		default:
			steps[i].Move = []string{"forward", "backward"}[g.rnd.IntN(2)]
		}
	}
	return steps
}

// bounds may be nil, and in an iterator's case in the wrong order.
func (g *generator) bounds(ordered bool) (from, to []byte) {
	if !ordered && g.h.Comparer.IsBytewise() && g.rnd.IntN(3) == 0 {
		return g.narrowBounds()
	}
	if g.rnd.IntN(2) == 0 {
		from = g.key()
	}
	if g.rnd.IntN(2) == 0 {
		to = g.key()
	}
	wrong := from != nil && to != nil && g.h.Comparer.Compare(from, to) > 0
	if wrong && (ordered || g.rnd.IntN(8) > 0) {
		from, to = to, from
	}
	return from, to
}

// narrowBounds are both there and begin with the same bytes, or nearly, so that filters
// of ranges have something to say.
func (g *generator) narrowBounds() (from, to []byte) {
	from = g.key()
	from = from[:len(from)-g.rnd.IntN(min(len(from), 2)+1)]
	to = bytes.Clone(from)
	if n := len(to); n > 0 && to[n-1] < 0xff && g.rnd.IntN(2) == 0 {
		to[n-1]++
		return from, to
	}
	return from, append(to, edges[g.rnd.IntN(len(edges))])
}

// edges are bytes that short binary keys are made of.
var edges = []byte("\x00\x01a\xff")

// reopen closes what is open first: what Close says of the rest is another test's.
func (g *generator) reopen(kind Kind) {
	g.closeSlots()
	g.add(Op{Kind: kind})
	g.readOnly = kind == OpenReadOnly
}

// crash makes everything durable beforehand, in one of three ways.
func (g *generator) crash() {
	switch g.rnd.IntN(5) {
	case 0:
		g.add(Op{Kind: Flush})
	case 3:
		g.add(Op{Kind: SyncLog})
	case 1:
		g.add(Op{Kind: Apply, Batch: g.batch(), Sync: true})
	case 2:
		g.add(Op{Kind: Delete, Key: g.key(), Sync: true})
	default:
		g.add(Op{Kind: Put, Key: g.key(), Value: g.value(), Sync: true})
	}
	g.reopen(Crash)
}

func (g *generator) closeSlots() {
	g.endLoad()
	g.dropTxn()
	for i := range slots {
		if g.iterators[i] {
			g.add(Op{Kind: CloseIterator, Slot: i})
		}
		g.iterators[i] = false
	}
	g.closeSnapshots()
}

func (g *generator) closeSnapshots() {
	for i := range slots {
		if g.snapshots[i] {
			g.add(Op{Kind: CloseSnapshot, Slot: i})
		}
		g.snapshots[i] = false
	}
}

// end reads everything both ways: as it is, merged, and opened again.
func (g *generator) end() {
	if g.readOnly {
		g.reopen(Reopen)
	}
	g.closeSlots()
	for _, before := range []Kind{Flush, Compact, Reopen} {
		g.add(Op{Kind: before})
		g.add(Op{Kind: NewIterator, Of: -1})
		g.add(Op{Kind: Move, Moves: []Step{{Move: "forward"}, {Move: "backward"}}}) // it begins before the first key
		g.add(Op{Kind: CloseIterator})
	}
	g.add(Op{Kind: Finish})
}

func (g *generator) key() []byte {
	shape := g.shape
	if g.rnd.IntN(10) == 0 {
		shape = g.rnd.IntN(3)
	}
	n := g.rnd.IntN(g.keys)
	if g.rnd.IntN(3) == 0 {
		n = g.rnd.IntN(max(1, g.keys/20)) // some are looked up more often
	}
	switch shape {
	case 0:
		return fmt.Appendf(nil, "k%d", n)
	case 1: // a prefix that blocks can leave out, and bytes beyond ASCII
		return append(bytes.Repeat([]byte("prefix/"), 8), byte(n>>8), byte(n))
	}
	// Short and binary: the empty key, one the prefix of the other, 0xff.
	key := []byte{}
	for ; n > 0; n /= 4 {
		key = append(key, "\x00\x01a\xff"[n%4])
	}
	return key
}

// value is short, larger than a small block, larger than a small memtable, or so large that iterators over keys do not
// read it. No two are the same.
func (g *generator) value() []byte {
	g.values++
	value := fmt.Appendf(nil, "v%d", g.values)
	size := 0
	switch g.rnd.IntN(60) {
	case 0:
		size = g.rnd.IntN(6000)
		if g.rnd.IntN(3) == 0 {
			size += 16 << 10
		}
	case 1, 2, 3, 4, 5, 6, 7:
		size = g.rnd.IntN(400)
	default:
		size = g.rnd.IntN(30)
	}
	compressible := g.rnd.IntN(2) == 0
	for len(value) < size {
		if compressible {
			value = append(value, byte('a'+g.values%26))
		} else {
			value = append(value, byte(g.rnd.Uint32()))
		}
	}
	if g.rnd.IntN(200) == 0 {
		return []byte{}
	}
	return value
}
