package lookup

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/internal/base/expiry"
)

// Snapshots holds the sequence numbers of the open snapshots. A compaction reads it to know which
// shadowed versions are still visible, and which values its filter may change.
type Snapshots struct {
	mu     sync.Mutex // no other lock is acquired under it
	open   []moment   // of snapshots that read the current state; ascending, with repetitions
	pinned []moment   // of those that pin a state
	pins   int        // while above 0, new snapshots pin their state

	drained chan struct{} // closed, and made nil, when the last one of open is closed; nil: nobody waits
}

// moment is the sequence number and the time of a snapshot. Both rise.
type moment struct{ seq, time uint64 }

// Open opens a snapshot at the newest visible sequence number and the time of p, which are read
// under the lock: a compaction that misses the snapshot in the list has then seen a visible
// sequence number no newer than the snapshot's, and a time no later.
func (l *Snapshots) Open(current *Current, p *expiry.Policy) At {
	p.Now() // not under the lock: it calls the user's clock
	l.mu.Lock()
	defer l.mu.Unlock()
	at, list := At{Time: p.Seen()}, &l.open
	if l.pins > 0 {
		list = &l.pinned
		at.State, at.Seq = current.RefAt(nil)
	} else {
		at.Seq = current.VisibleSeq.Load()
	}
	*list = append(*list, moment{at.Seq, at.Time})
	return at
}

// Show makes a state and a sequence number current at one moment for snapshots that pin what they
// read: none has the new number and the old state, nor the reverse. Other readers load the state
// first, so for them the number is replaced first. The caller owns the state of current.
func (l *Snapshots) Show(current *Current, s *State, seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	current.VisibleSeq.Store(seq)
	current.State.Store(s)
}

// Visible returns the last visible sequence number, of a state that is current or was before it: a state that is loaded
// after the call has everything up to that number. A plain load may come between the two steps of Show.
func (l *Snapshots) Visible(current *Current) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return current.VisibleSeq.Load()
}

// Close closes the snapshot that Open opened.
func (l *Snapshots) Close(at *At) {
	if at.State != nil {
		defer at.State.Version.Unref()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	list := &l.open
	if at.State != nil {
		list = &l.pinned
	}
	i := slices.Index(*list, moment{at.Seq, at.Time})
	*list = slices.Delete(*list, i, i+1)
	if l.drained != nil && len(l.open) == 0 {
		close(l.drained)
		l.drained = nil
	}
}

// Drained returns a channel that is closed when the last open snapshot that does not pin its state is closed, and
// nil if none is open. Under a Pin no such snapshot is added.
func (l *Snapshots) Drained() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) == 0 {
		return nil
	}
	if l.drained == nil {
		l.drained = make(chan struct{})
	}
	return l.drained
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

// BeginFilter is called by a compaction that may drop or replace values. It returns the smallest
// sequence number that no snapshot sees which reads the current state. If pin is set, new
// snapshots pin their state until end is called, when the result is installed or abandoned.
func (l *Snapshots) BeginFilter(pin bool) (from uint64, end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.open); n > 0 {
		from = l.open[n-1].seq + 1
	}
	if !pin {
		return from, func() {}
	}
	l.pins++
	return from, sync.OnceFunc(func() { l.pin(-1) })
}

// OldestUnpinned returns the oldest sequence number of the snapshots that read the current state;
// ok is false if there are none.
func (l *Snapshots) OldestUnpinned() (seq uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) == 0 {
		return 0, false
	}
	return l.open[0].seq, true
}

// Unpinned returns the sequence numbers of the snapshots that read the current state, ascending and without
// repetitions.
func (l *Snapshots) Unpinned() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	seqs := make([]uint64, 0, len(l.open))
	for _, m := range l.open {
		seqs = append(seqs, m.seq)
	}
	return slices.Compact(seqs)
}

// OldestTime returns the time of the oldest snapshot, or that of p. Snapshots that pin their state
// count: a transaction must find entries that were written since.
func (l *Snapshots) OldestTime(p *expiry.Policy) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := p.Seen()
	for _, list := range [][]moment{l.open, l.pinned} {
		if len(list) > 0 {
			oldest = min(oldest, list[0].time)
		}
	}
	return oldest
}

// All returns the sequence numbers that readers may use, ascending and without repetitions, the
// newest visible one last.
func (l *Snapshots) All(visible *atomic.Uint64) []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	seqs := make([]uint64, 0, len(l.open)+len(l.pinned)+1)
	for _, list := range [][]moment{l.open, l.pinned} {
		for _, m := range list {
			seqs = append(seqs, m.seq)
		}
	}
	seqs = append(seqs, visible.Load())
	slices.Sort(seqs)
	return slices.Compact(seqs)
}

// Oldest returns the first of what All returns.
func (l *Snapshots) Oldest(visible *atomic.Uint64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := visible.Load()
	for _, list := range [][]moment{l.open, l.pinned} {
		if len(list) > 0 {
			oldest = min(oldest, list[0].seq)
		}
	}
	return oldest
}
