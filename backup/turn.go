package backup

import (
	"context"
	"sync"

	"github.com/sievedb/sievedb/db"
)

// turns lets one call at a time archive a database, whatever repository it uses. A lock in memory is enough, because
// only one process has the database open for writing. Two calls at the same time would not be wrong, but each would
// begin with a backup.
var turns = struct {
	mu sync.Mutex
	of map[*db.DB]*turn
}{of: map[*db.DB]*turn{}}

type turn struct {
	free  chan struct{} // has an element if no call archives
	users int
}

// takeTurn waits until no other call archives the database. release must be called afterwards.
func takeTurn(ctx context.Context, d *db.DB) (release func(), err error) {
	turns.mu.Lock()
	t := turns.of[d]
	if t == nil {
		t = &turn{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		turns.of[d] = t
	}
	t.users++
	turns.mu.Unlock()
	leave := func() {
		turns.mu.Lock()
		defer turns.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(turns.of, d)
		}
	}
	select {
	case <-t.free:
		return func() { t.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
