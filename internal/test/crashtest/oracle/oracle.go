// Package oracle determines which states of a store a crash may leave. A state must be the effect of
// a prefix of the batches in commit order. The prefix must include every batch whose durability was
// promised, and no batch that had not been issued yet. Only tests import it.
//
// In addition to its operations, every batch writes its number to the marker key of its writer. The markers of a state
// identify the prefix, and the other keys must be the effect of that prefix. This finds half a batch, a lost batch in
// the middle, a deleted key that came back, and a value that was never written.
package oracle

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Never is the time of an event that did not happen.
const Never = int(^uint(0) >> 1)

// Op is one operation of a batch.
type Op struct {
	Key, Value string
	Delete     bool
}

// Batch is a batch of operations that were committed together. Times are cuts of a recorder's trace.
type Batch struct {
	Writer, Number int // the batches of a writer have numbers from 1
	Ops            []Op
	Sync           bool
	// Buffered batches may be lost even if only the process dies.
	Buffered bool
	// Issued is when the write was issued, Acked when it was acknowledged. Acked is Never if the
	// write was not acknowledged or failed.
	Issued, Acked int
}

// markerPrefix begins the marker keys.
const markerPrefix = "!writer"

// MarkerKey returns the key to which the batches of a writer write their numbers.
func MarkerKey(writer int) string { return fmt.Sprintf("%s%03d", markerPrefix, writer) }

// All returns the operations of the batch and its marker, which the test passes to the store.
func (b *Batch) All() []Op {
	marker := Op{Key: MarkerKey(b.Writer), Value: strconv.Itoa(b.Number)}
	return append(slices.Clone(b.Ops), marker)
}

// History has the batches in commit order. It is immutable.
type History struct {
	batches  []*Batch
	writers  map[int][]int        // positions of the batches of each writer in commit order
	versions map[string][]version // by key, oldest first
	live     []int                // live[n] is the number of keys with a value after n batches
	keys     []string
}

// version is the state of a key since a batch.
type version struct {
	after  int // number of batches up to and including that one
	value  string
	exists bool
}

// New returns the history of batches, which are in commit order.
func New(batches []*Batch) *History {
	h := &History{batches: batches, writers: map[int][]int{}, versions: map[string][]version{}, live: []int{0}}
	live := map[string]bool{}
	for i, b := range batches {
		h.writers[b.Writer] = append(h.writers[b.Writer], i)
		if got := len(h.writers[b.Writer]); got != b.Number {
			panic(fmt.Sprintf("oracle: batch %d of writer %d is number %d in commit order", b.Number, b.Writer, got))
		}
		for _, op := range b.All() {
			h.versions[op.Key] = append(h.versions[op.Key], version{i + 1, op.Value, !op.Delete})
			if op.Delete {
				delete(live, op.Key)
			} else {
				live[op.Key] = true
			}
		}
		h.live = append(h.live, len(live))
	}
	h.keys = slices.Sorted(maps.Keys(h.versions))
	return h
}

// Len returns the number of batches.
func (h *History) Len() int { return len(h.batches) }

// Keys returns every key that was ever written, in ascending order.
func (h *History) Keys() []string { return h.keys }

// Bounds returns the minimum and maximum number of batches that a state after the cut may have.
// keepsAll requires batches that were acknowledged without sync too, unless they were only buffered.
func (h *History) Bounds(cut int, keepsAll bool) (low, high int) {
	for i, b := range h.batches {
		if b.Acked <= cut && (b.Sync || keepsAll && !b.Buffered) {
			low = i + 1
		}
		if b.Issued < cut {
			high = i + 1
		}
	}
	return low, high
}

// At returns the value of key after the first n batches.
func (h *History) At(n int, key string) (value string, exists bool) {
	versions := h.versions[key]
	i := sort.Search(len(versions), func(i int) bool { return versions[i].after > n })
	if i == 0 {
		return "", false
	}
	return versions[i-1].value, versions[i-1].exists
}

// Entry is a key of a state and its value.
type Entry struct{ Key, Value string }

// Prefix returns the length of the prefix whose effect the state is, or an error if it is not the
// effect of a prefix. The state must be in the order of keys.
func (h *History) Prefix(state []Entry) (int, error) {
	n, err := h.markedPrefix(state)
	if err != nil {
		return 0, err
	}
	for i, e := range state {
		if i > 0 && state[i-1].Key >= e.Key {
			return n, fmt.Errorf("key %q follows %q", e.Key, state[i-1].Key)
		}
		want, exists := h.At(n, e.Key)
		if !exists {
			return n, fmt.Errorf("key %q has value %q; after %d batches it must not exist", e.Key, e.Value, n)
		}
		if want != e.Value {
			return n, fmt.Errorf("key %q has value %q; after %d batches it must be %q", e.Key, e.Value, n, want)
		}
	}
	if len(state) != h.live[n] {
		return n, fmt.Errorf("found %d keys, want %d after %d batches: %s is missing",
			len(state), h.live[n], n, h.firstMissing(state, n))
	}
	return n, nil
}

// markedPrefix reads the markers and returns the prefix that they identify.
func (h *History) markedPrefix(state []Entry) (int, error) {
	marks, sum := map[int]int{}, 0
	for _, e := range state {
		name, ok := strings.CutPrefix(e.Key, markerPrefix)
		if !ok {
			continue
		}
		writer, err1 := strconv.Atoi(name)
		number, err2 := strconv.Atoi(e.Value)
		if err1 != nil || err2 != nil || number < 1 || number > len(h.writers[writer]) {
			return 0, fmt.Errorf("marker %q has value %q, which was never written", e.Key, e.Value)
		}
		marks[writer] = number
		sum += number
	}
	for _, writer := range slices.Sorted(maps.Keys(h.writers)) {
		places := h.writers[writer]
		want := sort.SearchInts(places, sum) // how many of its batches are among the first sum
		if marks[writer] != want {
			return 0, fmt.Errorf("found %d batches, %d of them by writer %d, who wrote %d of the first %d: "+
				"they are not a prefix of the commit order", sum, marks[writer], writer, want, sum)
		}
	}
	return sum, nil
}

func (h *History) firstMissing(state []Entry, n int) string {
	have := map[string]bool{}
	for _, e := range state {
		have[e.Key] = true
	}
	for _, k := range h.keys {
		if _, exists := h.At(n, k); exists && !have[k] {
			return strconv.Quote(k)
		}
	}
	return "no key"
}

// Check is Prefix and also returns an error if a crash at the cut cannot leave that prefix.
func (h *History) Check(state []Entry, cut int, keepsAll bool) (int, error) {
	n, err := h.Prefix(state)
	if err != nil {
		return n, err
	}
	low, high := h.Bounds(cut, keepsAll)
	if n < low {
		b := h.batches[low-1]
		return n, fmt.Errorf("found %d batches, but the first %d were promised: "+
			"batch %d of writer %d (sync %v) was acknowledged at %d", n, low, b.Number, b.Writer, b.Sync, b.Acked)
	}
	if n > high {
		return n, fmt.Errorf("found %d batches, but only %d had been issued", n, high)
	}
	return n, nil
}
