package replica

import (
	"bytes"
	"maps"
	"slices"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
)

// overlay is what entries on their way write: the newest write of each key. Keys are those of the database.
type overlay struct {
	writes map[string]written
	// emptied is the number of the last entry on its way that deletes all keys; 0: none.
	emptied uint64
}

type written struct {
	value   kv.Value
	deleted bool
	entry   uint64 // the number of the pending entry
}

func newOverlay() overlay { return overlay{writes: map[string]written{}} }

// add takes over what an entry writes.
func (o *overlay) add(entry uint64, emptied bool, writes map[string]written) {
	if emptied {
		maps.DeleteFunc(o.writes, func(key string, _ written) bool { return key[0] == layout.KeyPrefix })
		o.emptied = entry
	}
	for key, w := range writes {
		w.entry = entry
		o.writes[key] = w
	}
}

// applied forgets what an entry has written, for the state has it now.
func (o *overlay) applied(p *pending) {
	if o.emptied == p.number {
		o.emptied = 0
	}
	for _, key := range p.keys {
		if w, ok := o.writes[key]; ok && w.entry == p.number {
			delete(o.writes, key)
		}
	}
}

// inSlot returns the sorted keys, without the slot, of a slot in [start, limit) that are in one of the maps.
func inSlot(slot uint16, start, limit []byte, all ...map[string]written) [][]byte {
	found := map[string]bool{}
	for _, writes := range all {
		for dbKey := range writes {
			s, key, err := layout.ParseKey([]byte(dbKey))
			if err == nil && s == slot && bytes.Compare(key, start) >= 0 && (limit == nil || bytes.Compare(key, limit) < 0) {
				found[string(key)] = true
			}
		}
	}
	keys := make([][]byte, 0, len(found))
	for _, key := range slices.Sorted(maps.Keys(found)) {
		keys = append(keys, []byte(key))
	}
	return keys
}
