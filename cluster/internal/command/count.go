package command

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// Tools ask for INFO every second, and counting reads all keys. So a count takes a tenth of a second, of which each
// group has its part, and a hundredth of the time.
const (
	countFor   = 100 * time.Millisecond
	countRest  = 100
	answersFor = 5 * countFor // for the groups to confirm that they lead
)

// Keyspace is what a node has for its clients.
type Keyspace struct {
	// Keys and Expiring count the keys of the groups that the node leads, and those of them that expire.
	Keys, Expiring int64
	// Estimated says that not all keys were counted, and that the other slots were taken to be like those counted.
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
		bounded, cancel := context.WithTimeout(ctx, answersFor)
		defer cancel()
		k, work := n.count(bounded, func(groups time.Duration) context.Context {
			return until{bounded, time.Now().Add(countFor / groups)}
		})
		now := time.Now()
		// Groups that do not answer cost no work, and will soon. Those who have waited for the lock do not wait again.
		n.counts.last, n.counts.next = k, now.Add(max(countRest*work, now.Sub(began)))
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

// count counts the keys, and how long it took to read them. The slots of groups that do not answer are taken to be like
// the others. part returns a context for each of so many groups.
func (n *Node) count(ctx context.Context, part func(groups time.Duration) context.Context) (all Keyspace, work time.Duration) {
	led, slots, answered := n.led(), int64(0), int64(0)
	for _, g := range led {
		var k Keyspace
		size, seen := int64(g.last-g.first)+1, int64(0)
		err := g.group.View(ctx, false, func(r kv.Reader) (err error) {
			began := time.Now()
			k, seen = Keyspace{}, 0 // what an earlier call has found
			m := meter{ctx: part(time.Duration(len(led)))}
			for ; seen < size && m.look() == nil && err == nil; seen++ {
				err = k.add(r, g.first+uint16(seen), &m)
			}
			k.Estimated = m.err != nil // also within the last slot
			work += time.Since(began)
			return err
		})
		if notLeader := new(kv.NotLeaderError); errors.As(err, &notLeader) {
			continue
		}
		slots += size
		if err == nil && seen > 0 {
			answered += size
			all.Keys += k.Keys * size / seen
			all.Expiring += k.Expiring * size / seen
			all.Estimated = all.Estimated || k.Estimated
		}
	}
	if answered < slots {
		all = Keyspace{all.Keys * slots / max(answered, 1), all.Expiring * slots / max(answered, 1), true}
	}
	return all, work
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
