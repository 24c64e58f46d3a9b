package replica

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// signal tells of a change of the leadership that is none, as when a leader becomes ready.
func (l *line) signal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
}

// fail ends what waits with an error, as a transfer of the leadership does that fails. This node leads on in its term.
func (l *line) fail() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.waiting {
		p.err = &kv.NotLeaderError{}
		close(p.done)
	}
	l.waiting = nil
}

// The bug: establishLoop looked whether the leadership is established, and then took the channel that is closed when it
// is given up. If it was given up in between, the log led, and the replica refused all writes until another election.
func TestALeadershipThatIsGivenUpIsEstablishedAgain(t *testing.T) {
	g := newRig(t)
	end := time.Now().Add(5 * time.Second)
	if testing.Short() {
		end = time.Now().Add(time.Second / 4)
	}
	var others sync.WaitGroup
	defer others.Wait()
	for range 8 { // who wants the lock of the replica waits
		others.Go(func() {
			for time.Now().Before(end) {
				g.Leading()
			}
		})
	}
	for time.Now().Before(end) {
		require.True(t, g.leadsWithin(12*time.Second), "the log leads, and the replica does not")
		g.log.set(func() { g.log.held = true })
		p, err := g.Update(t.Context(), func(tx kv.Tx) error { tx.Put([]byte("k"), kv.Value{}); return nil })
		g.log.signal()
		g.log.fail()
		g.log.set(func() { g.log.held = false; g.log.commitLocked(len(g.log.waiting)) })
		if err == nil {
			_ = p.Wait(t.Context())
		}
	}
}

func (g *rig) leadsWithin(d time.Duration) bool {
	for limit := time.Now().Add(d); !g.Leading(); time.Sleep(20 * time.Microsecond) {
		if time.Now().After(limit) {
			return false
		}
	}
	return true
}
