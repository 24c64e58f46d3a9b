package soak

import (
	"fmt"
	"sync/atomic"

	"github.com/sievedb/sievedb/db"
)

// model is what the keys of one worker hold. It belongs to one goroutine at a time, except for live.
type model struct {
	seed     uint64
	worker   int
	done     uint64       // batches applied
	versions []uint64     // by key: the batch that wrote its value; 0: it has none
	live     atomic.Int64 // bytes of its keys and values
}

func newModels(seed uint64, keys int) []*model {
	all := make([]*model, workers)
	for w := range all {
		all[w] = &model{seed: seed, worker: w, versions: make([]uint64, keys)}
	}
	return all
}

// next returns the batch that comes after those applied.
func (m *model) next() (n uint64, writes []write, sync bool) {
	writes, sync = batchAt(m.seed, m.worker, m.done+1, len(m.versions))
	return m.done + 1, writes, sync
}

// advance applies the next batch.
func (m *model) advance() {
	n, writes, _ := m.next()
	for _, w := range writes {
		if w.delete {
			m.set(w.key, 0)
		} else {
			m.set(w.key, n)
		}
	}
	m.done = n
}

func (m *model) set(key int, n uint64) {
	if old := m.versions[key]; old != 0 {
		m.live.Add(-int64(liveBytes(m.worker, key, old)))
	}
	if n != 0 {
		m.live.Add(int64(liveBytes(m.worker, key, n)))
	}
	m.versions[key] = n
}

// filled says that each key was written once.
func (m *model) filled() bool { return m.done >= fillBatches(len(m.versions)) }

// differing describes the first difference of what was read from what the model holds, "" if there is none.
func (m *model) differing(got []uint64) string {
	for key, n := range m.versions {
		if got[key] != n {
			return fmt.Sprintf("after %d batches of its worker, key %q is of batch %d, not %d (0: it has no value)",
				m.done, keyOf(m.worker, key), got[key], n)
		}
	}
	return ""
}

// reader is what the store and its snapshots have in common.
type reader interface {
	Get(key []byte) ([]byte, error)
	NewIterator(o *db.IterOptions) (*db.Iterator, error)
}

// readAll returns the batch numbers of all keys of all workers, and an error if a key or a value
// belongs to no worker, or the order is wrong.
func readAll(from reader, keys int) ([][]uint64, error) {
	got := make([][]uint64, workers)
	for w := range got {
		got[w] = make([]uint64, keys)
	}
	it, err := from.NewIterator(&db.IterOptions{NoFillCache: true})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	previous := ""
	for k, v := range it.All() {
		worker, key, err := parseKey(k)
		if err != nil {
			return nil, err
		}
		if worker >= workers || key >= keys || string(k) <= previous {
			return nil, fmt.Errorf("key %q follows %q", k, previous)
		}
		if got[worker][key], err = numberOf(worker, key, v); err != nil {
			return nil, err
		}
		previous = string(k)
	}
	return got, it.Err()
}

// compare holds what the store has to the models. After a kill the batch in progress of each worker
// may be present as well; a model then continues from the present state.
func compare(from reader, models []*model, killed bool) error {
	got, err := readAll(from, len(models[0].versions))
	if err != nil {
		return err
	}
	for w, m := range models {
		difference := m.differing(got[w])
		if difference != "" && killed {
			m.advance()
			if m.differing(got[w]) == "" {
				continue
			}
		}
		if difference != "" {
			return fmt.Errorf("opened again (after a kill: %v): %s", killed, difference)
		}
	}
	return nil
}
