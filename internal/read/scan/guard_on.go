//go:build race || sievedb_guard

package scan

// Guarded says that cursors find changes of the memory that they hand out.
const Guarded = true

// guarded is what a cursor has for that.
type guarded struct{ guard }

func (g *guarded) lendKey(b []byte) []byte   { return g.key.lend(b) }
func (g *guarded) lendValue(b []byte) []byte { return g.value.lend(b) }
func (g *guarded) ended() error              { return g.guard.end() }
func (g *guarded) unchanged() bool           { return g.guard.unchanged() }
