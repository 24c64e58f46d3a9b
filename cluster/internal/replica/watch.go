package replica

import (
	"context"

	"github.com/sievedb/sievedb/cluster/internal/kv"
)

// watch is a kv.Watch. Its fields are guarded by the mutex of the replica.
type watch struct {
	r        *Replica
	lead     *leadership
	keys     []string // of the database
	expires  int64    // the first time at which one of them does; 0: none does
	changed  bool
	finished bool
}

// watches has the watches of each key, and for each whether the key existed when it began. A watch begins and ends in
// one leadership.
type watches map[string]map[*watch]bool

// Watch implements kv.Group. It waits for writes of the keys that are on their way: a read after it sees what is
// committed, and a write that it neither sees nor notices would be lost.
func (r *Replica) Watch(ctx context.Context, keys [][]byte) (kv.Watch, error) {
	w, underway, err := r.beginWatch(ctx, keys)
	if err != nil {
		return nil, err
	}
	if underway != nil {
		if err := underway.Wait(ctx); err != nil {
			w.Close()
			return nil, notDone(err)
		}
	}
	return w, nil
}

// beginWatch also returns the newest entry on its way if one writes a key, or gives the log the time by which one has
// expired.
func (r *Replica) beginWatch(ctx context.Context, keys [][]byte) (w *watch, underway *pending, err error) {
	lead, err := r.lockLeadership(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer r.mu.Unlock()
	t := &tx{lead: lead, now: max(lead.clock, r.o.Clock()), work: work{ctx: ctx, limit: r.o.MaxEvaluation}}
	w = &watch{r: r, lead: lead}
	existed := map[string]bool{}
	err = r.state.View(func(base kv.Reader) error {
		t.base = base
		for _, key := range keys {
			v, ok, err := t.Get(key)
			if err != nil {
				return err
			}
			if ok && v.ExpireAt != 0 && (w.expires == 0 || v.ExpireAt < w.expires) {
				w.expires = v.ExpireAt
			}
			dbKey := t.dbKey(key)
			if _, newer := t.find(dbKey); newer {
				underway = lead.last
			}
			w.keys = append(w.keys, string(dbKey))
			existed[string(dbKey)] = ok
		}
		return nil
	})
	if err != nil {
		return nil, nil, r.sound(err)
	}
	if t.expired {
		// The log gets the time, or a key that counts as absent here could return with a clock that is set back, and
		// its deletion would change nothing for the watch.
		if underway, err = r.proposeLocked(lead, t); err != nil {
			return nil, nil, err
		}
	}
	for _, key := range w.keys {
		if lead.watches[key] == nil {
			lead.watches[key] = map[*watch]bool{}
		}
		lead.watches[key][w] = existed[key]
	}
	return w, underway, nil
}

// Dirty implements kv.Watch. It is called within the function of an Update, so the mutex is locked.
func (w *watch) Dirty() bool {
	now := max(w.lead.clock, w.r.o.Clock())
	return w.changed || w.finished || w.r.lead != w.lead || w.expires != 0 && w.expires <= now
}

// Close implements kv.Watch.
func (w *watch) Close() {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.finished = true
	for _, key := range w.keys {
		delete(w.lead.watches[key], w)
		if len(w.lead.watches[key]) == 0 {
			delete(w.lead.watches, key)
		}
	}
}

// dirty notes what a transaction writes. To delete a key that did not exist when a watch began changes nothing for that
// watch: if the key was written since, the watch is dirty already. Such deletions are those of FLUSHALL, which touches
// only keys that exist, as in Redis, and those of a sweep, which also removes keys that a watch has seen as expired.
func (ws watches) dirty(t *tx) {
	if len(ws) == 0 {
		return
	}
	if t.emptied {
		for _, all := range ws {
			touch(all, true)
		}
	}
	for key, written := range t.writes {
		touch(ws[key], written.deleted)
	}
}

// touch makes the watches of a key dirty.
func touch(all map[*watch]bool, deleted bool) {
	for w, existed := range all {
		w.changed = w.changed || existed || !deleted
	}
}

func (ws watches) dirtyAll() {
	for _, all := range ws {
		touch(all, false)
	}
}
