//go:build race || sievedb_guard

package scan

import "github.com/sievedb/sievedb/util"

// Guarded says that cursors find changes of the memory that they hand out.
const Guarded = true

// guarded is what a cursor has for that.
type guarded struct{ guard }

func (g *guarded) lendKey(b []byte) []byte   { return g.key.lend(b) }
func (g *guarded) lendValue(b []byte) []byte { return g.value.lend(b) }
func (g *guarded) ended() error              { return g.guard.end() }

// unchanged is end if nothing was changed. Otherwise it returns false and end returns the error.
func (g *guarded) unchanged() bool {
	for _, l := range []*loan{&g.key, &g.value} {
		if l.bytes != nil && util.XXH3(l.bytes) != l.sum {
			return false
		}
	}
	g.key.bytes, g.value.bytes = nil, nil
	return true
}
