package logstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/db"
)

// Durable returns the index up to which all entries survive a power cut.
func (g *Group) Durable() uint64 {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.durable
}

// WaitDurable waits until the entries up to an index are durable, or have been deleted.
func (g *Group) WaitDurable(ctx context.Context, index uint64) error {
	for {
		g.mu.Lock()
		if min(index, g.last) <= g.durable {
			g.mu.Unlock()
			return nil
		}
		if g.synced == nil {
			g.synced = make(chan struct{})
		}
		synced := g.synced
		g.mu.Unlock()
		select {
		case <-synced:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-g.s.ended:
			if err := g.s.Err(); err != nil {
				return fmt.Errorf("entry %d of group %d is not durable: %w", index, g.id, err)
			}
			return db.ErrClosed
		}
	}
}

func (g *Group) setDurableLocked(index uint64) {
	g.durable = max(g.durable, index)
	if g.synced != nil {
		close(g.synced)
		g.synced = nil
	}
}

// The writer takes entries of several groups into one batch up to maxTogether bytes, and a group waits for the writer
// before it gives it more than maxPending bytes.
const (
	maxTogether = 64 << 20
	maxPending  = 32 << 20
)

// StoreLogsSoon is StoreLogs, but the entries become durable after it has returned: see Durable. Until then they are
// read from memory, and must not be changed.
func (g *Group) StoreLogsSoon(logs []*raft.Log) error {
	g.storing.Lock()
	defer g.storing.Unlock()
	return g.storeSoon(logs)
}

// storeSoon gives entries to the writer. storing must be locked.
func (g *Group) storeSoon(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	if err := g.s.Err(); err != nil {
		return err
	}
	if err := g.encode(logs); err != nil {
		return err
	}
	if g.pendingBytes()+g.batch.Size() > maxPending {
		if err := g.WaitDurable(context.Background(), g.lastIndex()); err != nil {
			return err
		}
	}
	g.mu.Lock()
	if g.next == nil {
		g.next = new(db.Batch)
	}
	g.next.Append(&g.batch)
	g.tail = append(g.tail, logs...)
	g.appendLocked(logs)
	g.mu.Unlock()
	select {
	case g.s.wake <- struct{}{}:
	default:
	}
	return nil
}

func (g *Group) pendingBytes() int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.next == nil {
		return 0
	}
	return g.next.Size()
}

// writeLoop makes the entries of StoreLogsSoon durable. While the disk writes those of one batch, the entries of all
// groups gather for the next.
func (s *Store) writeLoop() {
	defer close(s.ended)
	var batch db.Batch
	for {
		select {
		case <-s.wake:
		case <-s.closing:
			return
		}
		for s.take(&batch) {
			if err := s.apply(&batch, db.Sync); err != nil {
				if !errors.Is(err, db.ErrClosed) {
					_ = s.fail(err) // apply does so too, but not if the batch is too large
				}
				return // nothing is acknowledged any more
			}
			s.wrote()
		}
	}
}

// take moves what groups have for the writer to a batch. It returns false if there is nothing.
func (s *Store) take(batch *db.Batch) bool {
	batch.Reset()
	s.taken = s.taken[:0]
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.groups {
		g.mu.Lock()
		if g.next != nil && g.next.Len() > 0 && (batch.Len() == 0 || batch.Size()+g.next.Size() <= maxTogether) {
			batch.Append(g.next)
			if g.next.Size() > maxScratch {
				g.next = nil
			} else {
				g.next.Reset()
			}
			s.taken = append(s.taken, taken{g, g.last})
		}
		g.mu.Unlock()
	}
	return len(s.taken) > 0
}

// taken is a group of which the writer has the entries up to last.
type taken struct {
	g    *Group
	last uint64
}

// wrote notes that what was taken is durable.
func (s *Store) wrote() {
	for _, t := range s.taken {
		t.g.mu.Lock()
		t.g.setDurableLocked(t.last)
		if i := t.last - t.g.tail[0].Index + 1; i == uint64(len(t.g.tail)) {
			clear(t.g.tail)
			t.g.tail = t.g.tail[:0]
		} else {
			t.g.tail = slices.Clone(t.g.tail[i:])
		}
		t.g.mu.Unlock()
	}
}
