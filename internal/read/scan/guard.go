package scan

import (
	"github.com/sievedb/sievedb/internal/base/errors"
	"github.com/sievedb/sievedb/util"
)

// errChanged is the error of a cursor whose key or value the caller has changed in place. The change may be
// in a block of the cache or in a memtable, and so in what other readers see and in the next table.
var errChanged = errors.New("sievedb: Iterator: a slice that Key, Value or a loop returned was changed; " +
	"it is the database's own memory: copy it before changing it")

// guard notes what a cursor has handed out, and finds changes of it. Cursors have one only in builds with the
// race detector or with the tag sievedb_guard: it hashes what it notes.
type guard struct{ key, value loan }

// loan is a slice that the caller may read.
type loan struct {
	bytes []byte
	sum   uint64
}

// lend notes b and returns it.
func (l *loan) lend(b []byte) []byte {
	l.bytes, l.sum = b, util.XXH3(b)
	return b
}

// end reports whether the slice was changed, and forgets it.
func (l *loan) end() (changed bool) {
	changed = l.bytes != nil && util.XXH3(l.bytes) != l.sum
	l.bytes = nil
	return changed
}

// end is called before the cursor moves, after which the slices are not valid any more.
func (g *guard) end() error {
	if key, value := g.key.end(), g.value.end(); key || value {
		return errChanged
	}
	return nil
}
