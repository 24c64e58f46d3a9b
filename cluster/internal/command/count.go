package command

import (
	"context"
	"sync"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// Tools ask for INFO every second, and counting reads all keys. So a count takes a tenth of a second, of which each group
// has its part, and a hundredth of the time.
const (
	countFor  = 100 * time.Millisecond
	countRest = 100
)

// Keyspace is what a node has for its clients.
type Keyspace struct {
	// Keys and Expiring count the keys of the groups that the node leads, and those of them that expire.
	Keys, Expiring int64
	// Estimated says that only a part of the slots was counted, and that the others were taken to be like them.
	Estimated bool
}

// counts has the last count.
type counts struct {
	mu   sync.Mutex
	last Keyspace
	next time.Time // from when on it is made again
}

// Keyspace returns a count that is at most some seconds old.
func (n *Node) Keyspace(ctx context.Context) Keyspace {
	n.counts.mu.Lock()
	defer n.counts.mu.Unlock()
	if began := time.Now(); began.After(n.counts.next) {
		bounded, cancel := context.WithTimeout(ctx, 2*countFor)
		defer cancel()
		n.counts.last = n.count(bounded, func(groups time.Duration) context.Context {
			return until{bounded, time.Now().Add(countFor / groups)}
		})
		now := time.Now()
		n.counts.next = now.Add(countRest * now.Sub(began))
	}
	return n.counts.last
}

// until is a context that ends at a time, without a timer.
type until struct {
	context.Context
	end time.Time
}

func (u until) Err() error {
	if time.Now().After(u.end) {
		return context.DeadlineExceeded
	}
	return u.Context.Err()
}

// count counts the keys, except those of groups that do not answer. part returns a context for each of so many groups.
func (n *Node) count(ctx context.Context, part func(groups time.Duration) context.Context) (all Keyspace) {
	led := n.led()
	for _, g := range led {
		var k Keyspace
		slots, seen := int64(g.last-g.first)+1, int64(0)
		err := g.group.View(ctx, false, func(r kv.Reader) (err error) {
			k, seen = Keyspace{}, 0 // what an earlier call has found
			for work := (meter{ctx: part(time.Duration(len(led)))}); seen < slots && work.look() == nil && err == nil; seen++ {
				err = k.add(r, g.first+uint16(seen), &work)
			}
			return err
		})
		if err == nil && seen > 0 {
			all.Keys += k.Keys * slots / seen
			all.Expiring += k.Expiring * slots / seen
			all.Estimated = all.Estimated || seen < slots
		}
	}
	return all
}

// add counts the keys of a slot.
func (k *Keyspace) add(r kv.Reader, slot uint16, work *meter) error {
	return r.Scan(slot, nil, nil, false, func(_ []byte, v kv.Value) bool {
		k.Keys++
		if v.ExpireAt != 0 {
			k.Expiring++
		}
		return work.spend(keyWork + len(v.Data)/keyWork)
	})
}
