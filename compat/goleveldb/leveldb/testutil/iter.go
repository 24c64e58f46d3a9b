package testutil

import (
	"fmt"
	"math/rand"

	"github.com/onsi/gomega"

	"github.com/syndtr/goleveldb/leveldb/iterator"
)

// IterAct is a movement of an iterator.
type IterAct int

// The movements. IterSOI and IterEOI go beyond the first and the last pair.
const (
	IterNone IterAct = iota
	IterFirst
	IterLast
	IterPrev
	IterNext
	IterSeek
	IterSOI
	IterEOI
)

// String returns the name of the movement.
func (a IterAct) String() string {
	names := [...]string{"none", "first", "last", "prev", "next", "seek", "soi", "eoi"}
	if a < 0 || int(a) >= len(names) {
		return "unknown"
	}
	return names[a]
}

// IteratorTesting moves an iterator and compares it with sorted pairs.
type IteratorTesting struct {
	KeyValue
	Iter         iterator.Iterator
	Rand         *rand.Rand
	PostFn       func(t *IteratorTesting) // called after each movement; may be nil
	Pos          int                      // where the iterator should be: -1 to Len
	Act, LastAct IterAct

	begun bool
}

func (t *IteratorTesting) begin(act IterAct) {
	t.start()
	t.LastAct, t.Act = t.Act, act
}

// start puts Pos before the first pair, once.
func (t *IteratorTesting) start() {
	if !t.begun {
		t.begun, t.Pos = true, -1
	}
}

func (t *IteratorTesting) end() {
	if t.PostFn != nil {
		t.PostFn(t)
	}
}

// Text describes the last movements.
func (t *IteratorTesting) Text() string {
	return fmt.Sprintf("IteratorTesting at %d after %v and %v", t.Pos, t.LastAct, t.Act)
}

// IsFirst reports whether the iterator should be at the first pair.
func (t *IteratorTesting) IsFirst() bool {
	t.start()
	return t.Len() > 0 && t.Pos == 0
}

// IsLast reports whether the iterator should be at the last pair.
func (t *IteratorTesting) IsLast() bool {
	t.start()
	return t.Len() > 0 && t.Pos == t.Len()-1
}

// TestKV compares the pair of the iterator.
func (t *IteratorTesting) TestKV() {
	t.start()
	key, value := t.Index(t.Pos)
	gomega.Expect(t.Iter.Key()).NotTo(gomega.BeNil())
	gomega.Expect(t.Iter.Key()).To(gomega.Equal(key), "key, %s", t.Text())
	gomega.Expect(t.Iter.Value()).To(gomega.Equal(value), "value of %q, %s", key, t.Text())
}

// arrive checks a movement that should have reached pos.
func (t *IteratorTesting) arrive(ok bool, pos int) {
	gomega.Expect(t.Iter.Error()).NotTo(gomega.HaveOccurred())
	t.Pos = pos
	if pos >= 0 && pos < t.Len() {
		gomega.Expect(ok).To(gomega.BeTrue(), t.Text())
		t.TestKV()
	} else {
		gomega.Expect(ok).To(gomega.BeFalse(), t.Text())
	}
	t.end()
}

// First moves to the first pair.
func (t *IteratorTesting) First() {
	t.begin(IterFirst)
	pos := 0
	if t.Len() == 0 {
		pos = -1
	}
	t.arrive(t.Iter.First(), pos)
}

// Last moves to the last pair.
func (t *IteratorTesting) Last() {
	t.begin(IterLast)
	t.arrive(t.Iter.Last(), max(t.Len()-1, 0))
}

// Next moves to the next pair.
func (t *IteratorTesting) Next() {
	t.begin(IterNext)
	t.arrive(t.Iter.Next(), min(t.Pos+1, t.Len()))
}

// Prev moves to the pair before.
func (t *IteratorTesting) Prev() {
	t.begin(IterPrev)
	t.arrive(t.Iter.Prev(), max(t.Pos-1, -1))
}

// Seek seeks the key of a pair.
func (t *IteratorTesting) Seek(i int) {
	t.begin(IterSeek)
	t.arrive(t.Iter.Seek(t.KeyAt(i)), i)
}

// SeekInexact seeks a key between a pair and the one before.
func (t *IteratorTesting) SeekInexact(i int) {
	t.begin(IterSeek)
	key, _, _ := t.IndexInexact(i)
	t.arrive(t.Iter.Seek(key), i)
}

// SeekKey seeks a key, which may be absent.
func (t *IteratorTesting) SeekKey(key []byte) {
	t.begin(IterSeek)
	t.arrive(t.Iter.Seek(key), t.Search(key))
}

// SOI goes beyond the first pair, from there.
func (t *IteratorTesting) SOI() {
	t.begin(IterSOI)
	gomega.Expect(t.Pos).To(gomega.BeNumerically("<=", 0), t.Text())
	for range 3 {
		t.Prev()
	}
	t.end()
}

// EOI goes beyond the last pair, from there.
func (t *IteratorTesting) EOI() {
	t.begin(IterEOI)
	gomega.Expect(t.Pos).To(gomega.BeNumerically(">=", t.Len()-1), t.Text())
	for range 3 {
		t.Next()
	}
	t.end()
}

// WalkPrev calls fn, which must move back, until the iterator is at the first pair.
func (t *IteratorTesting) WalkPrev(fn func(t *IteratorTesting)) {
	t.start()
	for t.Pos > 0 {
		before := t.Pos
		fn(t)
		gomega.Expect(t.Pos).To(gomega.BeNumerically("<", before), t.Text())
	}
}

// WalkNext calls fn, which must move forward, until the iterator is at the last pair.
func (t *IteratorTesting) WalkNext(fn func(t *IteratorTesting)) {
	t.start()
	for t.Pos < t.Len()-1 {
		before := t.Pos
		fn(t)
		gomega.Expect(t.Pos).To(gomega.BeNumerically(">", before), t.Text())
	}
}

// PrevAll walks back to the first pair.
func (t *IteratorTesting) PrevAll() { t.WalkPrev((*IteratorTesting).Prev) }

// NextAll walks to the last pair.
func (t *IteratorTesting) NextAll() { t.WalkNext((*IteratorTesting).Next) }

// DoIteratorTesting moves a new iterator in all ways.
func DoIteratorTesting(t *IteratorTesting) {
	t.Rand = orNewRand(t.Rand)
	for _, move := range []func(*IteratorTesting){
		(*IteratorTesting).SOI, (*IteratorTesting).NextAll, (*IteratorTesting).First, (*IteratorTesting).SOI,
		(*IteratorTesting).NextAll, (*IteratorTesting).EOI, (*IteratorTesting).PrevAll, (*IteratorTesting).Last,
		(*IteratorTesting).EOI, (*IteratorTesting).PrevAll, (*IteratorTesting).SOI, (*IteratorTesting).NextAll,
		(*IteratorTesting).PrevAll, (*IteratorTesting).NextAll, (*IteratorTesting).Last, (*IteratorTesting).PrevAll,
		(*IteratorTesting).First, (*IteratorTesting).NextAll, (*IteratorTesting).EOI,
	} {
		move(t)
	}
	ShuffledIndex(t.Rand, t.Len(), 1, t.Seek)
	ShuffledIndex(t.Rand, t.Len(), 1, t.SeekInexact)
	ShuffledIndex(t.Rand, t.Len(), 1, func(i int) {
		t.Seek(i)
		if i%2 == 0 {
			t.NextAll()
			t.EOI()
		} else {
			t.PrevAll()
			t.SOI()
		}
	})
	for _, key := range []string{"", "foo", "bar", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		t.SeekKey([]byte(key))
	}
}
