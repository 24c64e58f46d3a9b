package lookup

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Snapshots holds the sequence numbers of the open snapshots. A compaction reads it to know which
// shadowed versions are still visible, and which values its filter may change.
type Snapshots struct {
	mu     sync.Mutex // no other lock is acquired under it
	seqs   []uint64   // of snapshots that read the current state; ascending, with repetitions
	pinned []uint64   // of those that pin a state
	pins   int        // while above 0, new snapshots pin their state
}

// Open opens a snapshot at the newest visible sequence number, which is read under the lock: a
// compaction that misses the snapshot in the list has then seen a visible sequence number no
// newer than the snapshot's.
func (l *Snapshots) Open(current *Current) At {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pins > 0 {
		s, seq := current.RefAt(nil)
		l.pinned = append(l.pinned, seq)
		return At{Seq: seq, State: s}
	}
	seq := current.VisibleSeq.Load()
	l.seqs = append(l.seqs, seq)
	return At{Seq: seq}
}

// Close closes the snapshot that Open opened.
func (l *Snapshots) Close(at *At) {
	if at.State != nil {
		defer at.State.Version.Unref()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	seqs := &l.seqs
	if at.State != nil {
		seqs = &l.pinned
	}
	i, _ := slices.BinarySearch(*seqs, at.Seq)
	*seqs = slices.Delete(*seqs, i, i+1)
}

// Pin makes new snapshots pin the state that they read, until unpin is called. A change of the
// tables that drops or replaces what they show is not seen by them. Their numbers are in the list
// too: transactions find later writes by their numbers.
func (l *Snapshots) Pin() (unpin func()) {
	l.pin(+1)
	return sync.OnceFunc(func() { l.pin(-1) })
}

func (l *Snapshots) pin(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pins += n
}

// BeginFilter is Pin for a compaction that calls a filter. It returns the smallest sequence
// number that no snapshot sees which reads the current state. The compaction calls end when its
// result is installed or abandoned.
func (l *Snapshots) BeginFilter() (from uint64, end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pins++
	if n := len(l.seqs); n > 0 {
		from = l.seqs[n-1] + 1
	}
	return from, sync.OnceFunc(func() { l.pin(-1) })
}

// OldestUnpinned returns the oldest sequence number of the snapshots that read the current state;
// ok is false if there are none.
func (l *Snapshots) OldestUnpinned() (seq uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seqs) == 0 {
		return 0, false
	}
	return l.seqs[0], true
}

// All returns the sequence numbers that readers may use, ascending and without repetitions, the
// newest visible one last.
func (l *Snapshots) All(visible *atomic.Uint64) []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	seqs := append(slices.Concat(l.seqs, l.pinned), visible.Load())
	if len(l.pinned) > 0 {
		slices.Sort(seqs)
	}
	return slices.Compact(seqs)
}

// Oldest returns the first of what All returns.
func (l *Snapshots) Oldest(visible *atomic.Uint64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := visible.Load()
	for _, seqs := range [][]uint64{l.seqs, l.pinned} {
		if len(seqs) > 0 {
			oldest = min(oldest, seqs[0])
		}
	}
	return oldest
}
