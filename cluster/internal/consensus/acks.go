package consensus

import (
	"sync"

	"github.com/hashicorp/raft"
)

// acks knows which servers have acknowledged this one as leader, and since when. Time is a counter: what
// matters is only whether a message was sent after a read began.
type acks struct {
	mu      sync.Mutex
	now     uint64
	last    map[raft.ServerID]ack
	changed chan struct{} // closed at the next acknowledgement
}

// ack says that a server has acknowledged the leader of a term by answering a message sent at a time.
type ack struct{ term, sent uint64 }

func newAcks() *acks {
	return &acks{last: make(map[raft.ServerID]ack), changed: make(chan struct{})}
}

func (a *acks) tick() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now++
	return a.now
}

func (a *acks) note(id raft.ServerID, term, sent uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last := a.last[id]; last.term > term || last.term == term && last.sent >= sent {
		return
	}
	a.last[id] = ack{term, sent}
	a.wakeLocked()
}

// wake wakes the goroutines that wait for a quorum, so that they check again.
func (a *acks) wake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wakeLocked()
}

func (a *acks) wakeLocked() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// quorum reports whether a majority of the voters has acknowledged the leader self of a term after since. If
// not, changed is closed when that may be different.
func (a *acks) quorum(servers []raft.Server, self raft.ServerID, term, since uint64) (ok bool, changed <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	voters, votes := 0, 0
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if last := a.last[s.ID]; s.ID == self || last.term == term && last.sent > since {
			votes++
		}
	}
	return votes > voters/2, a.changed
}
