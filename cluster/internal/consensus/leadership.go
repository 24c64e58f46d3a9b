package consensus

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Leadership says whether this server leads its group.
type Leadership struct {
	Leading bool
	// Term is that in which the server leads, or has led last.
	Term uint64
	// Ready reports that an entry of this term is committed, and all before it is applied here. From then on, the
	// state machine has all writes that were ever acknowledged.
	Ready bool
}

// leadership follows raft's state. Raft's LeaderCh drops signals and its NotifyCh comes without a term, so
// it listens to an observer, whose filter raft calls on its main loop for each change of state.
type leadership struct {
	call func(Leadership)
	g    *Group
	wg   sync.WaitGroup

	mu      sync.Mutex
	now     Leadership
	raft    *raft.Raft    // whose events count
	changed chan struct{} // closed at the next change, also of a leader elsewhere
	events  []Leadership  // that call has not seen
	wake    sync.Cond
	closed  bool
}

func newLeadership(call func(Leadership)) *leadership {
	l := &leadership{call: call, changed: make(chan struct{})}
	l.wake.L = &l.mu
	return l
}

func (l *leadership) start(g *Group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.g = g
	if l.now.Leading {
		l.prepareLocked() // elected before start
	}
	l.wg.Add(1)
	go l.deliver()
}

// close ends delivery. The last event, that this server does not lead, is delivered.
func (l *leadership) close() {
	l.mu.Lock()
	l.setLocked(Leadership{Term: l.now.Term})
	l.closed = true
	l.wake.Broadcast()
	l.mu.Unlock()
	l.wg.Wait()
}

// observe begins to follow r.
func (l *leadership) observe(r *raft.Raft) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.raft = r
	if l.now.Leading {
		l.setLocked(Leadership{Term: l.now.Term})
	}
	r.RegisterObserver(raft.NewObserver(nil, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.RaftState:
			l.mu.Lock()
			defer l.mu.Unlock()
			l.stateLocked(r)
		case raft.LeaderObservation:
			l.mu.Lock()
			defer l.mu.Unlock()
			l.broadcastLocked()
		}
		return false
	}))
	l.stateLocked(r) // it may have been elected before the observer was there
}

// stateLocked notes raft's state. On raft's main loop the term is that of the state: raft changes the term before it
// becomes leader, and after it ceases to be.
func (l *leadership) stateLocked(r *raft.Raft) {
	if l.raft != r || l.closed {
		return
	}
	term := r.CurrentTerm()
	leading := r.State() == raft.Leader
	switch {
	case leading && (!l.now.Leading || l.now.Term != term):
		l.setLocked(Leadership{Leading: true, Term: term})
		if l.g != nil {
			l.prepareLocked()
		}
	case !leading && l.now.Leading:
		l.setLocked(Leadership{Term: l.now.Term})
	}
}

func (l *leadership) setLocked(now Leadership) {
	if l.now == now {
		return
	}
	l.now = now
	l.events = append(l.events, now)
	l.wake.Broadcast()
	l.broadcastLocked()
}

func (l *leadership) broadcastLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// prepareLocked commits an entry of the present term.
func (l *leadership) prepareLocked() {
	term := l.now.Term
	l.wg.Add(1)
	go func() {
		defer l.wg.Done()
		for {
			err := l.g.Barrier(context.Background())
			l.mu.Lock()
			if l.now != (Leadership{Leading: true, Term: term}) || l.closed {
				l.mu.Unlock()
				return // the barrier may be of a later term, which has its own
			}
			if err == nil {
				l.setLocked(Leadership{Leading: true, Term: term, Ready: true})
				l.mu.Unlock()
				return
			}
			l.mu.Unlock()
			select {
			case <-time.After(5 * time.Millisecond): // a transfer of leadership was in progress
			case <-l.g.dead:
				return
			}
		}
	}()
}

func (l *leadership) deliver() {
	defer l.wg.Done()
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for len(l.events) == 0 {
			if l.closed {
				return
			}
			l.wake.Wait()
		}
		e := l.events[0]
		l.events = l.events[1:]
		l.mu.Unlock()
		l.call(e)
		l.mu.Lock()
	}
}

func (l *leadership) current() Leadership {
	now, _ := l.watch()
	return now
}

// watch returns the present state and a channel that is closed when it may have changed.
func (l *leadership) watch() (Leadership, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now, l.changed
}

// Barrier appends an entry and waits until all before it is applied here.
func (g *Group) Barrier(ctx context.Context) error {
	_, err := g.await(ctx, func(r *raft.Raft) raft.Future { return r.Barrier(0) })
	return g.proposalError(err, true)
}
