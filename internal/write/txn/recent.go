package txn

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/disk/batch"
)

// Recent holds the keys of the newest commits while transactions are being examined. Only the
// leader of the commit queue calls its methods, except for Begin and End.
type Recent struct {
	watchers atomic.Int32

	// recording says that every commit above from is in old and young.
	recording  bool
	from       uint64
	half       uint64 // the last commit in old
	old, young commits
}

// commits are the keys of successive commits.
type commits struct {
	keys  []byte // of each entry: fixed32 length | key
	marks []mark
}

// mark says where the keys of a commit begin, and which sequence number is before it.
type mark struct {
	before uint64
	at     int
}

func (c *commits) reset() { c.keys, c.marks = c.keys[:0], c.marks[:0] }

// The bounds of the younger half of what is recorded: bytes and commits.
const (
	maxYoung   = 512 << 10
	maxCommits = 32 << 10
)

// lengthSize is the number of bytes before a key.
const lengthSize = 4

// Begin keeps what is committed from now on until End. Commits that run meanwhile may be missing; Covers says so.
func (r *Recent) Begin() { r.watchers.Add(1) }

// End ends one Begin.
func (r *Recent) End() { r.watchers.Add(-1) }

// Watched reports whether commits must be recorded. It may say so a commit too long.
func (r *Recent) Watched() bool { return r.watchers.Load() > 0 || r.recording }

// Add records the keys of a log record that the leader commits. Its sequence numbers follow
// last, that of the newest commit before.
func (r *Recent) Add(last uint64, record []byte) {
	if !r.ready(last) {
		return
	}
	entries, err := batch.NewReader(record)
	if err != nil {
		r.Forget(last)
		return
	}
	for {
		_, key, _, _, ok, _ := entries.Next()
		if !ok {
			return
		}
		r.appendKey(key)
	}
}

// AddKey is Add for a commit of one key.
func (r *Recent) AddKey(last uint64, key []byte) {
	if r.ready(last) {
		r.appendKey(key)
	}
}

// ready makes room for a commit after last, and reports whether it is to be recorded.
func (r *Recent) ready(last uint64) bool {
	switch {
	case r.watchers.Load() == 0:
		r.recording, r.old, r.young = false, commits{}, commits{}
		return false
	case !r.recording:
		r.Forget(last)
		r.recording = true
	case len(r.young.keys) > maxYoung || len(r.young.marks) == maxCommits:
		r.from, r.half = r.half, last
		r.old, r.young = r.young, r.old
		r.young.reset()
	}
	r.young.marks = append(r.young.marks, mark{last, len(r.young.keys)})
	return true
}

func (r *Recent) appendKey(key []byte) {
	r.young.keys = binary.LittleEndian.AppendUint32(r.young.keys, uint32(len(key)))
	r.young.keys = append(r.young.keys, key...)
}

// Forget says that the commits up to last are not recorded, such as a load.
func (r *Recent) Forget(last uint64) {
	r.from, r.half = last, last
	r.old.reset()
	r.young.reset()
}

// Covers reports whether all commits above horizon are recorded. last is the newest commit.
func (r *Recent) Covers(horizon, last uint64) bool {
	return horizon == last || r.recording && r.from <= horizon
}

// Conflict reports whether a commit above horizon has a key that was read. Covers must be true.
func (r *Recent) Conflict(reads *Reads, horizon uint64) bool {
	other := func(key []byte) bool { return !reads.Covers(key) }
	return !r.old.above(horizon, other) || !r.young.above(horizon, other)
}

// above calls yield for the keys of commits above horizon until it returns false, and reports whether it never did.
func (c *commits) above(horizon uint64, yield func(key []byte) bool) bool {
	first, _ := slices.BinarySearchFunc(c.marks, horizon, func(m mark, horizon uint64) int { return cmp.Compare(m.before, horizon) })
	if first == len(c.marks) {
		return true
	}
	for keys := c.keys[c.marks[first].at:]; len(keys) > 0; {
		end := lengthSize + binary.LittleEndian.Uint32(keys)
		if !yield(keys[lengthSize:end]) {
			return false
		}
		keys = keys[end:]
	}
	return true
}

// AppendKeys appends copies of the keys of commits above horizon that want accepts. Covers must be true.
func (r *Recent) AppendKeys(keys [][]byte, horizon uint64, want func(key []byte) bool) [][]byte {
	for _, c := range []*commits{&r.old, &r.young} {
		c.above(horizon, func(key []byte) bool {
			if want(key) {
				keys = append(keys, slices.Clone(key))
			}
			return true
		})
	}
	return keys
}

// BatchConflict reports whether a batch of count entries, without its header, has a key that was read.
func BatchConflict(reads *Reads, entries []byte, count uint32) bool {
	r := batch.ReaderOf(entries, count)
	for {
		_, key, _, _, ok, _ := r.Next()
		if !ok {
			return false
		}
		if reads.Covers(key) {
			return true
		}
	}
}
