package replica

import (
	"bytes"
	"context"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
)

// MetaGet returns what the group itself stores under a name, as this replica has it; nil if that is nothing.
func (r *Replica) MetaGet(name string) ([]byte, error) { return r.state.Meta(name) }

// MetaCAS stores new under a name if old is there (nil: nothing), and reports whether it did. The name must not
// be one that the state uses. Clients cannot reach these.
func (r *Replica) MetaCAS(ctx context.Context, name string, old, new []byte) (swapped bool, err error) {
	p, swapped, err := r.proposeMeta(ctx, name, old, new)
	if err != nil {
		return false, err
	}
	return swapped, p.Wait(ctx)
}

// proposeMeta proposes nothing if old is not there. That has to be confirmed too: a deposed leader does not know.
func (r *Replica) proposeMeta(ctx context.Context, name string, old, new []byte) (_ kv.Pending, swapped bool, err error) {
	lead, err := r.lockLeadership(ctx)
	if err != nil {
		return nil, false, err
	}
	defer r.mu.Unlock()
	if r.o.Full() {
		return nil, false, kv.ErrNoSpace
	}
	key := string(layout.Meta(name))
	w, newer := lead.overlay.writes[key]
	present := w.value.Data
	if !newer {
		if present, err = r.state.Meta(name); err != nil {
			return nil, false, err
		}
	}
	if (present == nil) != (old == nil) || !bytes.Equal(present, old) {
		return r.confirmLocked(lead), false, nil
	}
	t := &tx{lead: lead, now: max(lead.clock, r.o.Clock())}
	t.batch.Put([]byte(key), new)
	t.note([]byte(key), written{value: kv.Value{Data: append([]byte{}, new...)}})
	p, err := r.proposeLocked(lead, t)
	if err != nil {
		return nil, false, err
	}
	return p, true, nil
}
