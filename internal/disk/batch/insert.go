package batch

import (
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/memtable"
)

// Insert adds the entries of a batch to mem. The caller has checked the batch's bytes and
// reserved space in mem; Insert panics otherwise.
func Insert(mem *memtable.Memtable, ins *memtable.Inserter, data []byte) {
	r, err := NewReader(data)
	for more := err == nil; more; {
		var group [memtable.GroupSize]memtable.Entry
		n, seq := 0, r.Seq
		for more && n < len(group) {
			e := &group[n]
			if e.Kind, e.Key, e.Value, _, more, err = r.Next(); more {
				n++
			}
		}
		if !mem.AddGroup(ins, seq, group[:n]) {
			panic(NoRoom)
		}
	}
	if err != nil {
		panic(errors.Wrap(err, "db: a batch of our own making does not decode"))
	}
}

// NoRoom is the panic of an insertion without reserved space.
const NoRoom = "db: the memtable is full although room was reserved for the batch"
